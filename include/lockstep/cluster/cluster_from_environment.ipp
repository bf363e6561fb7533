#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/cluster/cluster_from_environment.hpp"
#include "lockstep/cluster/launchers/by_hand.hpp"
#include "lockstep/cluster/launchers/jax.hpp"
#include "lockstep/cluster/launchers/kubeflow_trainer.hpp"
#include "lockstep/cluster/launchers/kubernetes_job.hpp"
#include "lockstep/cluster/launchers/mpi.hpp"
#include "lockstep/cluster/launchers/slurm.hpp"
#include "lockstep/cluster/launchers/torchrun.hpp"
#include "lockstep/cluster/tf_config.hpp"
#include "lockstep/collectives/address.hpp"
#include "lockstep/core/cores.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// In the order in which they count.
inline constexpr std::array<LauncherVariables, 9> known_launchers{{
    {"LOCKSTEP_RANK", false, read_by_hand},
    {"torchrun", false, read_torchrun},
    {"JAX", false, read_jax},
    {"Open MPI", false, read_open_mpi},
    {"MPICH", false, read_mpich},
    {"PMIx", false, read_pmix},
    {"Kubeflow Trainer", true, read_kubeflow_trainer},
    {"Slurm", true, read_slurm},
    {"an indexed Kubernetes Job", true, read_kubernetes_job},
}};

struct NamedClaim {
  std::string name;
  LauncherClaim claim;
  bool may_start_launchers = false;

  [[nodiscard]] std::string text() const { return concat({name, " (", claim.variables, ")"}); }
};

[[gnu::cold]] LOCKSTEP_INLINE void refuse_contradiction(const NamedClaim& taken,
                                                        const NamedClaim& other) {
  if (other.may_start_launchers ||
      (taken.claim.rank == other.claim.rank && taken.claim.size == other.claim.size))
    return;
  throw ConfigurationError(
      concat({"two launchers name different places for this process: rank ", taken.claim.rank,
              " of ", taken.claim.size, " by ", taken.text(), ", rank ", other.claim.rank, " of ",
              other.claim.size, " by ", other.text(),
              "; start the program by one of them, or unset the variables of the other"}));
}

/// TF_CONFIG's cluster as a claim that others can contradict.
LOCKSTEP_INLINE NamedClaim claim_of_tf_config(const Cluster& cluster) {
  NamedClaim named;
  named.name = "TF_CONFIG";
  named.claim.rank = cluster.rank();
  named.claim.size = cluster.world_size();
  named.claim.variables = concat({"task ", to_string(cluster.task.type), " ", cluster.task.index});
  return named;
}

/// The place of a claim that holds. Throws ConfigurationError when rank 0's address is not known,
/// or is none.
LOCKSTEP_INLINE Cluster cluster_of(const Environment& environment, const NamedClaim& named) {
  const LauncherClaim& claim = named.claim;
  Cluster cluster;
  cluster.source = named.text();
  if (claim.size == 1) return cluster;
  const std::string given = text_of(environment, "LOCKSTEP_MEETING_ADDRESS");
  const std::string address = given.empty() ? claim.address : given;
  constexpr std::string_view how =
      ", but not where the others are: set LOCKSTEP_MEETING_ADDRESS=host:port on all of them, with "
      "rank 0's host and a "
      "port that is free there";
  if (address.empty())
    throw ConfigurationError(
        concat({named.text(), " says that this is rank ", claim.rank, " of ", claim.size, how}));
  try {
    (void)parse_address(address);
  } catch (const ConfigurationError& error) {
    throw ConfigurationError(
        concat({given.empty() ? named.text() : "LOCKSTEP_MEETING_ADDRESS", ": ", error.what()}));
  }
  cluster.meeting =
      Meeting{.rank = claim.rank, .size = claim.size, .address = address, .job = claim.job};
  return cluster;
}

LOCKSTEP_INLINE Cluster cluster_from(const Environment& environment) {
  std::optional<Cluster> by_tf_config;
  std::optional<NamedClaim> taken;
  const char* const tf_config = environment("TF_CONFIG");
  if (tf_config != nullptr) {
    Cluster cluster = parse_tf_config(tf_config);
    if (!cluster.is_alone()) {
      cluster.source = "TF_CONFIG";
      // lockstep's own launcher knows what it does, wherever it runs itself.
      if (cluster.is_evaluator() || environment("LOCKSTEP_LAUNCHER") != nullptr) return cluster;
      taken = claim_of_tf_config(cluster);
      by_tf_config = std::move(cluster);
    }
  }
  std::string incomplete;
  for (const LauncherVariables& launcher : known_launchers) {
    std::optional<LauncherClaim> claim = launcher.read(environment);
    if (!claim) continue;
    NamedClaim named{launcher.name, std::move(*claim), launcher.may_start_launchers};
    if (!named.claim.missing.empty()) {
      if (incomplete.empty())
        incomplete = concat({named.text(), ": ", named.claim.missing, " is missing"});
      continue;
    }
    if (taken) {
      refuse_contradiction(*taken, named);
      continue;
    }
    taken = std::move(named);
    if (environment("LOCKSTEP_LAUNCHER") != nullptr) break;
  }
  if (by_tf_config) return std::move(*by_tf_config);
  if (taken) return cluster_of(environment, *taken);
  if (!incomplete.empty())
    throw ConfigurationError(
        concat({"environment variables of a launcher are incomplete, and would let this process "
                "train alone: ",
                incomplete, "; set it, or unset the others"}));
  if (tf_config != nullptr &&
      std::string_view(tf_config).find_first_not_of(" \t\r\n") == std::string_view::npos)
    log_line("warning: TF_CONFIG is set but empty; this process trains alone");
  return {};
}

LOCKSTEP_INLINE int cores_given_by(const Environment& environment) {
  if (environment("LOCKSTEP_LAUNCHER") != nullptr)
    return 0;  // its workers share what it has been given
  if (environment("SLURM_PROCID") == nullptr || environment("SLURM_CPUS_PER_TASK") == nullptr)
    return 0;
  return std::min(usable_cores(), number_of(environment, "SLURM_CPUS_PER_TASK", 1, 1 << 20));
}

}  // namespace detail

LOCKSTEP_INLINE int cores_given_by_launcher() {
  return detail::cores_given_by([](const char* name) -> const char* { return std::getenv(name); });
}

LOCKSTEP_INLINE Cluster cluster_from_environment() {
  return detail::cluster_from([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace lockstep::inline LOCKSTEP_ABI

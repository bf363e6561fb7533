#pragma once

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/cluster/cluster_from_environment.hpp"
#include "lockstep/cluster/launchers/known_launchers.hpp"
#include "lockstep/cluster/log_place.hpp"  // the log, too, knows this place
#include "lockstep/cluster/tf_config.hpp"
#include "lockstep/collectives/address.hpp"
#include "lockstep/core/cores.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

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
      if (cluster.is_evaluator() || cluster.is_parameter_server() ||
          environment("LOCKSTEP_LAUNCHER") != nullptr)
        return cluster;
      taken = claim_of_tf_config(cluster);
      by_tf_config = std::move(cluster);
    }
  }
  taken = claim_of_launchers(environment, std::move(taken));
  if (by_tf_config) return std::move(*by_tf_config);
  if (taken) return cluster_of(environment, *taken);
  if (tf_config != nullptr &&
      std::string_view(tf_config).find_first_not_of(" \t\r\n") == std::string_view::npos)
    log_warning("TF_CONFIG is set but empty; this process trains alone");
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

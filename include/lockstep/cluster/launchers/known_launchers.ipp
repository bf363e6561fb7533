#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/cluster/launchers/by_hand.hpp"
#include "lockstep/cluster/launchers/jax.hpp"
#include "lockstep/cluster/launchers/known_launchers.hpp"
#include "lockstep/cluster/launchers/kubeflow_trainer.hpp"
#include "lockstep/cluster/launchers/kubernetes_job.hpp"
#include "lockstep/cluster/launchers/mpi.hpp"
#include "lockstep/cluster/launchers/slurm.hpp"
#include "lockstep/cluster/launchers/torchrun.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

/// "MASTER_ADDR, MASTER_PORT", and no sentence.
[[nodiscard]] inline bool is_list(std::string_view missing) {
  return missing.find(',') != std::string_view::npos && missing.find('(') == std::string_view::npos;
}

LOCKSTEP_INLINE std::optional<NamedClaim> claim_of_launchers(const Environment& environment,
                                                             std::optional<NamedClaim> taken) {
  std::string incomplete;
  for (const LauncherVariables& launcher : known_launchers) {
    std::optional<LauncherClaim> claim = launcher.read(environment);
    if (!claim) continue;
    NamedClaim named{launcher.name, std::move(*claim), launcher.may_start_launchers};
    if (!named.claim.missing.empty()) {
      if (incomplete.empty() && !named.claim.is_alone)
        incomplete = concat(
            {named.text(), ": ", named.claim.missing,
             is_list(named.claim.missing) ? " are missing; set them" : " is missing; set it"});
      continue;
    }
    if (taken) {
      refuse_contradiction(*taken, named);
      continue;
    }
    taken = std::move(named);
    if (environment("LOCKSTEP_LAUNCHER") != nullptr) break;
  }
  if (!taken && !incomplete.empty())
    throw ConfigurationError(
        concat({"environment variables of a launcher are incomplete, and would let this process "
                "train alone: ",
                incomplete, ", or unset the others"}));
  if (const std::string size = text_of(environment, "LOCKSTEP_WORLD_SIZE");
      !taken && !size.empty() && size != "1")
    throw ConfigurationError(
        concat({"LOCKSTEP_WORLD_SIZE=", size,
                ", but nothing tells this process's rank, so that it would train alone: set "
                "LOCKSTEP_RANK, too (in a Kubernetes Job, completionMode: Indexed does)"}));
  return taken;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

// Kubeflow Trainer v2's Torch runtime, where the program runs without torchrun.
#pragma once

#include <optional>

#include "lockstep/cluster/launchers/claim.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// PET_NNODES, PET_NODE_RANK, PET_MASTER_ADDR and PET_MASTER_PORT: one process in each pod.
[[nodiscard, gnu::cold]] inline std::optional<LauncherClaim> read_kubeflow_trainer(
    const Environment& environment) {
  LauncherClaim claim;
  claim.variables = settings_text(environment, {"PET_NODE_RANK", "PET_NNODES", "PET_NPROC_PER_NODE",
                                                "PET_MASTER_ADDR", "PET_MASTER_PORT"});
  if (environment("PET_NODE_RANK") == nullptr && environment("PET_NNODES") == nullptr)
    return std::nullopt;
  claim.missing = unset_text(environment,
                             {"PET_NODE_RANK", "PET_NNODES", "PET_MASTER_ADDR", "PET_MASTER_PORT"});
  const std::string processes = text_of(environment, "PET_NPROC_PER_NODE");
  claim.is_alone = is_world_of_one(environment, "PET_NODE_RANK", "PET_NNODES") &&
                   (processes.empty() || processes == "1");
  if (!claim.missing.empty()) return claim;
  if (!processes.empty() && processes.find_first_not_of("0123456789") == std::string::npos &&
      processes != "1") {
    claim.missing = concat(
        {"torchrun, which starts the ", processes,
         " processes that PET_NPROC_PER_NODE asks for (`torchrun --no-python ./trainer`; or ask "
         "for 1, and let replicas be threads),"});
    return claim;
  }
  read_place(environment, "PET_NODE_RANK", "PET_NNODES", claim);
  claim.address = address_text(host_of(environment, "PET_MASTER_ADDR"),
                               number_of(environment, "PET_MASTER_PORT", 1, 65'535));
  claim.job = concat({"trainer ", claim.address});
  return claim;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

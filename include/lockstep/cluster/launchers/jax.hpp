// The variables of jax.distributed, which Kubeflow Trainer v2's JAX runtime sets.
#pragma once

#include <optional>

#include "lockstep/cluster/launchers/claim.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

[[nodiscard, gnu::cold]] inline std::optional<LauncherClaim> read_jax(
    const Environment& environment) {
  LauncherClaim claim;
  claim.variables = settings_text(
      environment, {"JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "JAX_COORDINATOR_ADDRESS"});
  if (claim.variables.empty()) return std::nullopt;
  claim.missing =
      unset_text(environment, {"JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "JAX_COORDINATOR_ADDRESS"});
  claim.is_alone = is_world_of_one(environment, "JAX_PROCESS_ID", "JAX_NUM_PROCESSES");
  if (!claim.missing.empty()) return claim;
  read_place(environment, "JAX_PROCESS_ID", "JAX_NUM_PROCESSES", claim);
  claim.address = text_of(environment, "JAX_COORDINATOR_ADDRESS");
  claim.job = concat({"jax ", claim.address});
  return claim;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

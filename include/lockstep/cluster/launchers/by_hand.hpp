// LOCKSTEP_RANK, LOCKSTEP_WORLD_SIZE, LOCKSTEP_MEETING_ADDRESS: set by the user's own script, or by
// `--hosts`.
#pragma once

#include <optional>

#include "lockstep/cluster/launchers/claim.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

[[nodiscard, gnu::cold]] inline std::optional<LauncherClaim> read_by_hand(
    const Environment& environment) {
  if (environment("LOCKSTEP_RANK") == nullptr) return std::nullopt;
  LauncherClaim claim;
  claim.variables = settings_text(
      environment, {"LOCKSTEP_RANK", "LOCKSTEP_WORLD_SIZE", "LOCKSTEP_MEETING_ADDRESS"});
  claim.missing = unset_text(environment, {"LOCKSTEP_WORLD_SIZE", "LOCKSTEP_MEETING_ADDRESS"});
  claim.is_alone = is_world_of_one(environment, "LOCKSTEP_RANK", "LOCKSTEP_WORLD_SIZE");
  if (!claim.missing.empty()) return claim;
  read_place(environment, "LOCKSTEP_RANK", "LOCKSTEP_WORLD_SIZE", claim);
  claim.address = text_of(environment, "LOCKSTEP_MEETING_ADDRESS");
  claim.job = text_of(environment, "LOCKSTEP_JOB_ID");
  return claim;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

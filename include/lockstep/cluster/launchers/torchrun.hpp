// torchrun, and what sets the same variables: Kubeflow's PyTorchJob, scripts.
#pragma once

#include <optional>
#include <string>

#include "lockstep/cluster/launchers/claim.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. One of them alone may mean something else.
[[nodiscard, gnu::cold]] inline std::optional<LauncherClaim> read_torchrun(
    const Environment& environment) {
  const auto is_set = [&](const char* name) { return environment(name) != nullptr; };
  const int set =
      is_set("RANK") + is_set("WORLD_SIZE") + is_set("MASTER_ADDR") + is_set("MASTER_PORT");
  if (set < 2 || (!is_set("RANK") && !is_set("WORLD_SIZE"))) return std::nullopt;
  LauncherClaim claim;
  claim.variables =
      settings_text(environment, {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"});
  claim.missing = unset_text(environment, {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"});
  claim.is_alone = is_world_of_one(environment, "RANK", "WORLD_SIZE");
  if (!claim.missing.empty()) return claim;
  read_place(environment, "RANK", "WORLD_SIZE", claim);
  // torchrun itself listens on that port for as long as its workers live.
  const bool agent_has_port = text_of(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  const int port = number_of(environment, "MASTER_PORT", 1, 65'535);
  const int first = !agent_has_port ? port : port <= 65'527 ? port + 1 : port - 8;
  claim.address = address_text(host_of(environment, "MASTER_ADDR"), first);
  claim.job = concat({"torchrun ", text_of(environment, "TORCHELASTIC_RUN_ID"), " port ", port});
  return claim;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

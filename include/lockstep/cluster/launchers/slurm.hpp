// Slurm: a process that srun has started.
#pragma once

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/launchers/claim.hpp"
#include "lockstep/cluster/launchers/node_list.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The nodes of the step, or of the job where there is no step; empty outside of Slurm.
[[nodiscard, gnu::cold]] inline std::vector<std::string> slurm_nodes(
    const Environment& environment) {
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"})
    if (const char* list = environment(name); list != nullptr && *list != '\0')
      return SlurmList::nodes(name, list);
  return {};
}

/// SLURM_PROCID of SLURM_STEP_NUM_TASKS, or of SLURM_NTASKS. Rank 0 is on the first node of the
/// list. Nothing is claimed by a batch script and by what it runs without srun, nor in a terminal
/// that srun or salloc has opened: one process alone is there.
[[nodiscard, gnu::cold]] inline std::optional<LauncherClaim> read_slurm(
    const Environment& environment) {
  const std::string step = text_of(environment, "SLURM_STEP_ID");
  const bool is_special =
      step.size() >= 10;  // 4294967290 and above: the batch script, an interactive step
  if (step.empty() || is_special || environment("SLURM_PTY_PORT") != nullptr) return std::nullopt;
  LauncherClaim claim;
  claim.variables = settings_text(
      environment, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_STEP_NODELIST",
                    "SLURM_STEP_TASKS_PER_NODE", "SLURM_JOB_ID", "SLURM_STEP_ID"});
  const char* const size =
      environment("SLURM_STEP_NUM_TASKS") != nullptr ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  claim.missing = unset_text(environment, {"SLURM_PROCID", size, "SLURM_JOB_ID"});
  if (!claim.missing.empty()) return claim;
  read_place(environment, "SLURM_PROCID", size, claim);
  claim.job = concat({"slurm ", text_of(environment, "SLURM_JOB_ID"), ".", step});
  if (claim.size == 1) return claim;

  const std::vector<std::string> nodes = slurm_nodes(environment);
  if (nodes.empty()) {
    claim.missing = "SLURM_STEP_NODELIST";
    return claim;
  }
  if (environment("SLURM_STEP_TASKS_PER_NODE") != nullptr) {
    const auto tasks = SlurmList::tasks("SLURM_STEP_TASKS_PER_NODE",
                                        text_of(environment, "SLURM_STEP_TASKS_PER_NODE"));
    const int sum = std::accumulate(tasks.begin(), tasks.end(), 0);
    if (tasks.size() != nodes.size() || sum != claim.size)
      throw ConfigurationError(
          concat({"Slurm's environment variables contradict each other: ", nodes.size(),
                  " nodes, tasks on ", tasks.size(), " nodes, ", sum, " tasks in all, and ", size,
                  "=", claim.size, " (", claim.variables, ")"}));
  }
  if (claim.rank == 0 && text_of(environment, "SLURM_NODEID") != "0" &&
      environment("SLURM_NODEID") != nullptr && environment("LOCKSTEP_MEETING_ADDRESS") == nullptr)
    throw ConfigurationError(
        concat({"SLURM_PROCID=0 is on node ", printable(text_of(environment, "SLURM_NODEID"), 20),
                " (SLURM_NODEID) of the step, and the others look for it on the first one, ",
                nodes.front(),
                ": leave the arbitrary distribution out, or set LOCKSTEP_MEETING_ADDRESS=host:port "
                "with rank 0's host"}));
  claim.address =
      address_text(nodes.size() == 1 ? "127.0.0.1" : nodes.front(), port_of_job(claim.job));
  return claim;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

// An indexed Job of Kubernetes, by itself or as a part of a JobSet.
#pragma once

#include <optional>
#include <string>

#include "lockstep/cluster/launchers/claim.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// JOB_COMPLETION_INDEX, which Kubernetes sets, with LOCKSTEP_WORLD_SIZE and
/// LOCKSTEP_MEETING_ADDRESS from the manifest. Where a JobSet has several Jobs of equal size,
/// LOCKSTEP_JOB_INDEX and LOCKSTEP_JOBS number them: the ranks of the first Job come first.
[[nodiscard, gnu::cold]] inline std::optional<LauncherClaim> read_kubernetes_job(
    const Environment& environment) {
  if (environment("JOB_COMPLETION_INDEX") == nullptr) return std::nullopt;
  LauncherClaim claim;
  claim.variables =
      settings_text(environment, {"JOB_COMPLETION_INDEX", "LOCKSTEP_JOB_INDEX", "LOCKSTEP_JOBS",
                                  "LOCKSTEP_WORLD_SIZE", "LOCKSTEP_MEETING_ADDRESS"});
  if (environment("LOCKSTEP_WORLD_SIZE") == nullptr) {
    claim.missing =
        "LOCKSTEP_WORLD_SIZE (the Job's spec.completions, times the Jobs of a JobSet; 1 where each "
        "pod trains alone)";
    return claim;
  }
  claim.size = number_of(environment, "LOCKSTEP_WORLD_SIZE", 1, most_ranks);
  if (claim.size == 1) return claim;
  const bool has_jobs =
      environment("LOCKSTEP_JOB_INDEX") != nullptr || environment("LOCKSTEP_JOBS") != nullptr;
  claim.missing = has_jobs ? unset_text(environment, {"LOCKSTEP_JOB_INDEX", "LOCKSTEP_JOBS"}) : "";
  if (!claim.missing.empty()) return claim;
  const int jobs = has_jobs ? number_of(environment, "LOCKSTEP_JOBS", 1, most_ranks) : 1;
  const int job = has_jobs ? number_of(environment, "LOCKSTEP_JOB_INDEX", 0, most_ranks - 1) : 0;
  const int index = number_of(environment, "JOB_COMPLETION_INDEX", 0, most_ranks - 1);
  if (claim.size % jobs != 0 || job >= jobs || index >= claim.size / jobs)
    throw ConfigurationError(
        concat({"the environment variables contradict each other: ", claim.size, " workers in ",
                jobs, jobs == 1 ? " Job" : " Jobs of equal size", ", and this is pod ", index,
                " of Job ", job, " (", claim.variables, ")"}));
  claim.rank = job * (claim.size / jobs) + index;
  claim.address = text_of(environment, "LOCKSTEP_MEETING_ADDRESS");
  claim.job = concat({"job ", claim.address});
  return claim;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

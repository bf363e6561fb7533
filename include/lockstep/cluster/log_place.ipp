#pragma once

#include <cstdlib>
#include <exception>
#include <optional>
#include <string>

#include "lockstep/cluster/launchers/known_launchers.hpp"
#include "lockstep/cluster/log_place.hpp"
#include "lockstep/cluster/tf_config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE LogPlace log_place_of(const Cluster& cluster) {
  LogPlace place{.task = to_string(cluster.task.type),
                 .index = cluster.meeting ? cluster.meeting->rank : cluster.task.index,
                 .rank = cluster.rank()};
  if (cluster.meeting)
    place.run = cluster.meeting->job;
  else if (const auto trained_at = cluster.addresses(); !trained_at.empty())
    place.run = trained_at.front();
  return place;
}

LOCKSTEP_INLINE LogPlace log_place_from(const Environment& environment) {
  try {
    if (const char* const config = environment("TF_CONFIG"); config != nullptr)
      if (const Cluster cluster = parse_tf_config(config); !cluster.is_alone())
        return log_place_of(cluster);
    const auto taken = claim_of_launchers(environment, std::nullopt);
    if (!taken || taken->claim.size == 1) return log_place_of({});
    return {.task = to_string(TaskType::worker),
            .index = taken->claim.rank,
            .rank = taken->claim.rank,
            .run = taken->claim.job};
  } catch (const std::exception&) {
    return {};
  }
}

/// Lines that come before the program has asked for its cluster have their place too, and those of
/// programs that never ask, as an evaluator's may not.
inline const bool log_lines_have_places = [] {
  find_log_place_by([] {
    return log_place_from([](const char* name) -> const char* { return std::getenv(name); });
  });
  return true;
}();

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

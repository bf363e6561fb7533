// Which way of dividing a dataset is taken, and why.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/data/auto_shard_policy.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

struct ShardDecision {
  AutoShardPolicy policy = AutoShardPolicy::data;  ///< data, file or off
  std::string reason;  ///< for the log: "data (automatic: there is one worker)"
};

/// Throws ConfigurationError when there are not enough files for AutoShardPolicy::file.
[[nodiscard]] ShardDecision decide_shard_policy(AutoShardPolicy wanted, std::int64_t num_files,
                                                int num_workers);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/data/shard_decision.ipp"
#endif

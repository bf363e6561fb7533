// How data are divided among ranks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The place of a replica among all. Ranks count worker by worker; every worker has the same number
/// of replicas.
struct DistributionContext {
  int num_workers = 1;
  int worker = 0;
  int local_replicas = 1;
  int local_replica = 0;

  [[nodiscard]] constexpr int num_ranks() const noexcept { return num_workers * local_replicas; }
  [[nodiscard]] constexpr int rank() const noexcept {
    return worker * local_replicas + local_replica;
  }
};

/// TensorFlow's tf.data.experimental.AutoShardPolicy.
enum class AutoShardPolicy {
  automatic,  ///< file where there are at least as many files as workers, else data
  data,       ///< every rank runs the whole pipeline and takes its part of each global batch
  file,       ///< each worker reads its share of the files and opens no others
  off,        ///< each worker reads its whole dataset; datasets are not compared
};

[[nodiscard]] constexpr std::string_view to_string(AutoShardPolicy policy) noexcept {
  switch (policy) {
    case AutoShardPolicy::automatic:
      return "automatic";
    case AutoShardPolicy::data:
      return "data";
    case AutoShardPolicy::file:
      return "file";
    case AutoShardPolicy::off:
      return "off";
  }
  return "unknown";
}

/// Element i belongs to shard i % num_shards: tf.data's rule.
[[nodiscard]] constexpr std::int64_t shard_of(std::int64_t i, std::int64_t num_shards) noexcept {
  return i % num_shards;
}

/// Throws ConfigurationError unless num_shards is at least 1 and index is in [0, num_shards).
inline void check_shard(std::int64_t num_shards, std::int64_t index) {
  if (num_shards < 1)
    throw ConfigurationError(concat({"shard: num_shards must be at least 1, got ", num_shards}));
  if (index < 0 || index >= num_shards)
    throw ConfigurationError(
        concat({"shard: the index must be in [0, ", num_shards, "), got ", index}));
}

/// How many of n elements belong to a shard. Throws ConfigurationError as check_shard does.
[[nodiscard]] inline std::int64_t shard_size(std::int64_t n, std::int64_t num_shards,
                                             std::int64_t index) {
  check_shard(num_shards, index);
  return n / num_shards + (index < n % num_shards ? 1 : 0);
}

namespace detail {

struct ShardDecision {
  AutoShardPolicy policy = AutoShardPolicy::data;  ///< data, file or off
  std::string reason;  ///< in a sentence, for the log: "one worker reads all of it"
};

/// Throws ConfigurationError when there are not enough files for AutoShardPolicy::file.
[[nodiscard]] ShardDecision decide_shard_policy(AutoShardPolicy wanted, std::int64_t num_files,
                                                int num_workers);

}  // namespace detail

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/data/sharding.ipp"
#endif

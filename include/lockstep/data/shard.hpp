// Which elements belong to a shard.
#pragma once

#include <cstdint>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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

}  // namespace lockstep::inline LOCKSTEP_ABI

#include "lockstep/data/shard.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/core/error.hpp"

namespace ls = lockstep;

TEST_SUITE_BEGIN("Keras: AutoShardPolicy");

TEST_CASE(
    "shard: element i belongs to shard i % n, which has len / n + (shard < len % n) elements") {
  for (std::int64_t n = 0; n < 12; ++n)
    for (std::int64_t shards = 1; shards < 6; ++shards) {
      std::vector<std::int64_t> sizes(static_cast<std::size_t>(shards));
      for (std::int64_t i = 0; i < n; ++i) {
        CHECK(ls::shard_of(i, shards) == i % shards);
        ++sizes[static_cast<std::size_t>(ls::shard_of(i, shards))];
      }
      for (std::int64_t index = 0; index < shards; ++index)
        CHECK(ls::shard_size(n, shards, index) == sizes[static_cast<std::size_t>(index)]);
    }
}

TEST_CASE("shard: an index outside of [0, shards), or a number of shards below 1, is an error") {
  CHECK_THROWS_AS((void)ls::shard_size(5, 0, 0), ls::ConfigurationError);
  CHECK_THROWS_AS((void)ls::shard_size(5, -1, 0), ls::ConfigurationError);
  CHECK_THROWS_AS((void)ls::shard_size(5, 2, 2), ls::ConfigurationError);
  CHECK_THROWS_AS((void)ls::shard_size(5, 2, -1), ls::ConfigurationError);
}

TEST_SUITE_END();

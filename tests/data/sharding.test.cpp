#include "lockstep/data/sharding.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/core/error.hpp"

namespace ls = lockstep;
using ls::AutoShardPolicy;
using ls::detail::decide_shard_policy;

TEST_CASE("DistributionContext: ranks count worker by worker") {
  constexpr ls::DistributionContext context{
      .num_workers = 3, .worker = 2, .local_replicas = 4, .local_replica = 1};
  static_assert(context.num_ranks() == 12 && context.rank() == 9);
  static_assert(ls::DistributionContext{}.num_ranks() == 1 &&
                ls::DistributionContext{}.rank() == 0);
}

TEST_SUITE_BEGIN("Keras: AutoShardPolicy");

TEST_CASE("AutoShardPolicy: automatic, data, file and off are their names") {
  CHECK(ls::to_string(ls::AutoShardPolicy::automatic) == "automatic");
  CHECK(ls::to_string(ls::AutoShardPolicy::data) == "data");
  CHECK(ls::to_string(ls::AutoShardPolicy::file) == "file");
  CHECK(ls::to_string(ls::AutoShardPolicy::off) == "off");
}

TEST_SUITE_END();

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

namespace {

std::string reason(AutoShardPolicy wanted, std::int64_t files, int workers) {
  return decide_shard_policy(wanted, files, workers).reason;
}

}  // namespace

TEST_SUITE_BEGIN("Keras: AutoShardPolicy");

TEST_CASE("automatic: file where there are enough files, else data, each with its reason") {
  CHECK(decide_shard_policy(AutoShardPolicy::automatic, 3, 3).policy == AutoShardPolicy::file);
  CHECK(decide_shard_policy(AutoShardPolicy::automatic, 2, 3).policy == AutoShardPolicy::data);
  CHECK(reason(AutoShardPolicy::automatic, 3, 2) ==
        "each worker reads its share of the files (AutoShardPolicy::file, automatic: 3 files for 2 "
        "workers)");
  CHECK(reason(AutoShardPolicy::automatic, 1, 2) ==
        "each worker takes its part of each batch (AutoShardPolicy::data, automatic: 1 file is "
        "fewer than 2 workers)");
  CHECK(reason(AutoShardPolicy::automatic, 0, 2) ==
        "each worker takes its part of each batch (AutoShardPolicy::data, automatic: the dataset "
        "has no files)");
  CHECK(reason(AutoShardPolicy::automatic, 9, 1) == "one worker reads all of it");
}

TEST_CASE(
    "the program's choice is kept; file without files, or with fewer than workers, is an error") {
  CHECK(reason(AutoShardPolicy::off, 0, 2) ==
        "each worker reads its whole dataset (AutoShardPolicy::off, chosen by the program)");
  CHECK(reason(AutoShardPolicy::file, 1, 1) ==
        "each worker reads its share of the files (AutoShardPolicy::file, chosen by the program: 1 "
        "file for 1 worker)");
  CHECK_THROWS_WITH_AS((void)decide_shard_policy(AutoShardPolicy::file, 0, 2),
                       "AutoShardPolicy::file: the dataset has 0 files for 2 workers; make it with "
                       "from_files, or use "
                       "AutoShardPolicy::data",
                       ls::ConfigurationError);
  CHECK_THROWS_WITH_AS((void)decide_shard_policy(AutoShardPolicy::file, 1, 2),
                       "AutoShardPolicy::file: the dataset has 1 file, fewer than the 2 workers; "
                       "write more files, or "
                       "use AutoShardPolicy::data",
                       ls::ConfigurationError);
}

TEST_SUITE_END();

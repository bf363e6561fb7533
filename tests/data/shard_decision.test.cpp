#include "lockstep/data/shard_decision.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "lockstep/core/error.hpp"

namespace ls = lockstep;
using ls::AutoShardPolicy;
using ls::detail::decide_shard_policy;

namespace {

std::string reason(AutoShardPolicy wanted, std::int64_t files, int workers) {
  return decide_shard_policy(wanted, files, workers).reason;
}

}  // namespace

TEST_SUITE_BEGIN("Keras: AutoShardPolicy");

TEST_CASE("automatic: file where there are enough files, else data, each with its reason") {
  CHECK(decide_shard_policy(AutoShardPolicy::automatic, 3, 3).policy == AutoShardPolicy::file);
  CHECK(decide_shard_policy(AutoShardPolicy::automatic, 2, 3).policy == AutoShardPolicy::data);
  CHECK(reason(AutoShardPolicy::automatic, 3, 2) == "file (automatic: 3 files for 2 workers)");
  CHECK(reason(AutoShardPolicy::automatic, 1, 2) ==
        "data (automatic: 1 file is fewer than 2 workers)");
  CHECK(reason(AutoShardPolicy::automatic, 0, 2) == "data (automatic: the dataset has no files)");
  CHECK(reason(AutoShardPolicy::automatic, 9, 1) == "data (automatic: there is one worker)");
}

TEST_CASE(
    "the program's choice is kept; file without files, or with fewer than workers, is an error") {
  CHECK(reason(AutoShardPolicy::off, 0, 2) == "off (chosen by the program)");
  CHECK(reason(AutoShardPolicy::file, 1, 1) == "file (chosen by the program; 1 file for 1 worker)");
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

#include "lockstep/data/auto_shard_policy.hpp"

#include <doctest/doctest.h>

namespace ls = lockstep;

TEST_SUITE_BEGIN("Keras: AutoShardPolicy");

TEST_CASE("AutoShardPolicy: automatic, data, file and off are their names") {
  CHECK(ls::to_string(ls::AutoShardPolicy::automatic) == "automatic");
  CHECK(ls::to_string(ls::AutoShardPolicy::data) == "data");
  CHECK(ls::to_string(ls::AutoShardPolicy::file) == "file");
  CHECK(ls::to_string(ls::AutoShardPolicy::off) == "off");
}

TEST_SUITE_END();

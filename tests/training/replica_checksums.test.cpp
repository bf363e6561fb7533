// That fit compares them is shown in tests/training/workers.test.cpp.
#include "lockstep/training/replica_checksums.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "support/model_testing.hpp"

namespace ls = lockstep;
using lockstep_test::contains;

namespace {

using Sums = std::vector<ls::detail::ReplicaChecksums>;

std::string difference(const Sums& sums, std::size_t local_size = 1) {
  return ls::detail::replica_difference(sums, local_size).value_or("none");
}

}  // namespace

TEST_CASE("replica checksums: equal ones are no difference") {
  CHECK(difference({{1, 2, 3, 4}}) == "none");
  CHECK(difference({{1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}}) == "none");
  // The replicas of a worker share all but the untrained state.
  CHECK(difference({{1, 2, 3, 4}, {.untrained = 4}, {1, 2, 3, 4}, {.untrained = 4}}, 2) == "none");
}

TEST_CASE("replica checksums: the ranks that differ from the majority are named, and in what") {
  CHECK(difference({{1, 2, 3, 4}, {9, 2, 3, 4}, {1, 2, 3, 4}}) ==
        "rank 1 differs from the 2 others, which are equal, in: parameters");
  CHECK(difference({{9, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 8, 4}, {1, 2, 3, 4}}) ==
        "ranks 0 and 3 differ from the 3 others, which are equal, in: parameters, the learning rate or the number of "
        "updates");
  CHECK(difference({{1, 7, 3, 4}, {1, 2, 3, 4}}) ==
        "ranks 0 and 1 differ, and there is no majority, in: the optimizer's slots");
  CHECK(difference({{1, 2, 3, 4}, {.untrained = 5}, {1, 2, 3, 4}, {.untrained = 4}}, 2) ==
        "rank 1 differs from the 3 others, which are equal, in: untrained state");
  // What a worker's first replica has, its others have too.
  CHECK(difference({{1, 2, 3, 4}, {.untrained = 4}, {1, 2, 3, 4}, {.untrained = 4}, {8, 2, 3, 4}, {.untrained = 4}},
                   2) == "ranks 4 and 5 differ from the 4 others, which are equal, in: parameters");
}

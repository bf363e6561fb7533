#include "lockstep/collectives/operation.hpp"

#include <doctest/doctest.h>

#include "lockstep/core/error.hpp"

using namespace lockstep;

TEST_CASE("check_root: the root is one of the ranks") {
  detail::check_root(0, 1);
  detail::check_root(3, 4);
  CHECK_THROWS_WITH_AS(detail::check_root(4, 4), "broadcast: there is no rank 4 among 4", Error);
  CHECK_THROWS_AS(detail::check_root(-1, 4), Error);
}

TEST_CASE("check_lengths: all ranks together fill the array") {
  detail::check_lengths(3, 12, 4);
  detail::check_lengths(0, 0, 4);
  CHECK_THROWS_WITH_AS(detail::check_lengths(3, 11, 4),
                       "all_gather: 4 ranks of 3 bytes do not fill 11 bytes", Error);
  CHECK_THROWS_AS(detail::check_lengths(3, 3, 4), Error);
}

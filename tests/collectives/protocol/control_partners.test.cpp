// Between which ranks there are connections for control, and on which ways words go further.
#include "lockstep/collectives/protocol/control_partners.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace lockstep;

TEST_SUITE("control partners") {
  TEST_CASE("a few ranks are all connected, of many each one with few") {
    CHECK(detail::control_partners(2, 4) == std::vector{0, 1, 3});
    CHECK(detail::control_partners(0, 8).size() == 7);
    CHECK(detail::control_partners(3, 12) == std::vector{1, 2, 4, 5, 7, 11});
    CHECK(detail::control_partners(100, 256).size() == 15);
    CHECK(detail::control_partners(0, 1).empty());
  }

  TEST_CASE("at start-up rank 0 meets all, and the others their partners and rank 0") {
    CHECK(detail::meet_at_startup(0, 6, 12));
    CHECK(detail::meet_at_startup(6, 0, 12));
    CHECK(detail::meet_at_startup(3, 4, 12));
    CHECK_FALSE(detail::meet_at_startup(3, 6, 12));
    CHECK_FALSE(detail::meet_at_startup(0, 0, 12));
  }

  TEST_CASE("from any rank, some partner is nearer to any other one, and a few steps lead there") {
    for (const int size : {2, 9, 12, 31, 64, 100, 256})
      for (int to = 1; to < size; ++to) {
        int steps = 0;
        for (int at = 0; at != to; ++steps) {
          const auto partners = detail::control_partners(at, size);
          const auto distance = [&](int rank) { return detail::circle_distance(rank, to, size); };
          const int next = *std::min_element(
              partners.begin(), partners.end(),
              [&](int one, int other) { return distance(one) < distance(other); });
          REQUIRE(distance(next) < distance(at));
          at = next;
        }
        CHECK(steps <= 5);  // of 256
      }
  }

  TEST_CASE("all leave before rank 0, each one before a partner") {
    for (const int size : {2, 8, 9, 20, 100})
      for (int rank = 1; rank < size; ++rank) {
        const int next = detail::leaves_after(rank, size);
        CHECK(next < rank);
        CHECK(detail::are_control_partners(rank, next, size));
        if (size <= 8) CHECK(next == 0);
      }
  }
}

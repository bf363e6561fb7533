#include "lockstep/collectives/policies/single.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/core/error.hpp"

using namespace lockstep;

TEST_SUITE("single") {
  TEST_CASE("a sum over one rank is its own value") {
    Single collective;
    CHECK(collective.rank() == 0);
    CHECK(collective.size() == 1);
    std::vector<float> values{1.5f, -2};
    std::vector<double> status{3};
    collective.all_reduce(std::span(values), ReduceOp::max);
    collective.all_reduce(std::span(status), std::span(values));
    CHECK(values == std::vector<float>{1.5f, -2});
    CHECK(status == std::vector<double>{3});
  }

  TEST_CASE("all_gather: elsewhere or in place, and the lengths must be equal") {
    Single collective;
    std::array<std::byte, 3> mine{std::byte{1}, std::byte{2}, std::byte{3}}, all{};
    collective.all_gather(mine, all);
    CHECK(all == mine);
    collective.all_gather(mine, mine);
    CHECK(all == mine);
    collective.all_gather({}, {});
    CHECK_THROWS_AS(collective.all_gather(mine, std::span(all).first(2)), Error);
    CHECK(all == mine);
  }
}

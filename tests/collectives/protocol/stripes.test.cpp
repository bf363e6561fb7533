#include "lockstep/collectives/protocol/stripes.hpp"

#include <doctest/doctest.h>

#include <vector>

using lockstep::detail::Stripes;

TEST_SUITE("stripes") {
  constexpr std::size_t stripe = Stripes::stripe_bytes;

  TEST_CASE("one connection carries the whole message at once") {
    constexpr Stripes stripes(1);
    for (const std::uint64_t position :
         {std::uint64_t{0}, std::uint64_t{stripe}, std::uint64_t{1} << 40}) {
      CHECK(stripes.at(position).connection == 0);
      CHECK(stripes.at(position).bytes > std::size_t{1} << 50);
    }
  }

  TEST_CASE("several take turns, and a place ends with its stripe") {
    constexpr Stripes stripes(3);
    const std::vector<std::size_t> turns{0, 1, 2, 0, 1};
    for (std::size_t i = 0; i < turns.size(); ++i) {
      CHECK(stripes.at(i * stripe).connection == turns[i]);
      CHECK(stripes.at(i * stripe).bytes == stripe);
      CHECK(stripes.at(i * stripe + 1).connection == turns[i]);
      CHECK(stripes.at(i * stripe + 1).bytes == stripe - 1);
      CHECK(stripes.at((i + 1) * stripe - 1).connection == turns[i]);
      CHECK(stripes.at((i + 1) * stripe - 1).bytes == 1);
    }
  }
}

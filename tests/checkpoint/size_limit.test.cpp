#include "lockstep/checkpoint/size_limit.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

namespace ls = lockstep;

TEST_CASE("size_limit: a multiple of the model's size, and no limit without a model") {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  CHECK(ls::detail::size_limit({}) == most);
  CHECK(ls::detail::size_limit(most) == most);
  CHECK(ls::detail::size_limit(0) == std::uint64_t{1} << 28);
  CHECK(ls::detail::size_limit(std::uint64_t{1} << 30) ==
        (std::uint64_t{1} << 34) + (std::uint64_t{1} << 28));
}

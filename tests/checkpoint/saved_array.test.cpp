#include "lockstep/checkpoint/saved_array.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace ls = lockstep;
using namespace lockstep::detail;

static_assert(std::string_view(scalar_name<float>()) == "float32");
static_assert(std::string_view(scalar_name<double>()) == "float64");

TEST_CASE("saved array: sizes of the scalar types") {
  CHECK(scalar_size("float32") == 4);
  CHECK(scalar_size("float64") == 8);
  CHECK_THROWS_AS((void)scalar_size("float16"), ls::DataError);
}

TEST_CASE("saved array: its size, also where it does not fit in 64 bits") {
  const auto size = [](std::initializer_list<std::uint64_t> extents) {
    return array_size(std::vector<std::uint64_t>(extents), 4);
  };
  constexpr std::uint64_t large = std::uint64_t{1} << 32;
  CHECK(size({}) == 4);
  CHECK(size({2, 3}) == 24);
  CHECK(size({large, large}) == std::nullopt);
  CHECK(size({large, large, 0}) == 0);
}

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/core/error.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

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

TEST_CASE("widen: each pair of bytes becomes one float, by the given conversion") {
  const std::vector<std::byte> bytes{std::byte{0x02}, std::byte{0x01}, std::byte{0xFF},
                                     std::byte{0x00}, std::byte{0},    std::byte{0}};
  const auto wide = ls::detail::widen(
      bytes, [](std::uint16_t number) noexcept { return static_cast<float>(number); });
  REQUIRE(wide.size() == 12);
  float values[3];
  std::memcpy(values, wide.data(), sizeof values);
  CHECK(values[0] == 0x0102);
  CHECK(values[1] == 0x00FF);
  CHECK(values[2] == 0);
  CHECK(ls::detail::widen({}, [](std::uint16_t) noexcept { return 1.0F; }).empty());
}

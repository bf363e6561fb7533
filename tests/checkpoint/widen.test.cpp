#include "lockstep/checkpoint/widen.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace ls = lockstep;

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

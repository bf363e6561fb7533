#include "lockstep/extra/parameter_server/numbers.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>

using lockstep::detail::pack_numbers;
using lockstep::detail::unpack_numbers;

TEST_CASE("numbers of messages: 8 bytes each, little-endian, one after the other") {
  const auto bytes = pack_numbers(std::uint64_t{0x0102}, std::int64_t{-1}, 1.0);
  std::array<std::byte, 24> expected{};
  expected[0] = std::byte{2};
  expected[1] = std::byte{1};
  for (std::size_t i = 8; i < 16; ++i) expected[i] = std::byte{0xff};
  expected[22] = std::byte{0xf0};  // 1.0 is 0x3ff0000000000000
  expected[23] = std::byte{0x3f};
  CHECK((bytes == expected));
  std::uint64_t first = 0;
  std::int64_t second = 0;
  double third = 0;
  unpack_numbers(bytes, first, second, third);
  CHECK(first == 0x0102);
  CHECK(second == -1);
  CHECK(third == 1.0);
}

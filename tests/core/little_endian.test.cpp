#include "lockstep/core/little_endian.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace lockstep::detail;

TEST_CASE("little_endian: the lowest byte comes first, and nothing else is touched") {
  std::array<std::byte, 8> bytes{};
  bytes[3] = std::byte{0xEE};
  put_number(bytes.data(), 0x12345678, 3);
  CHECK(bytes[0] == std::byte{0x78});
  CHECK(bytes[1] == std::byte{0x56});
  CHECK(bytes[2] == std::byte{0x34});
  CHECK(bytes[3] == std::byte{0xEE});
  CHECK(get_number(bytes.data(), 3) == 0x345678);
  CHECK(get_number<2>(bytes.data()) == 0x5678);

  put_number<8>(bytes.data(), 0xFEDCBA9876543210);
  CHECK(bytes[7] == std::byte{0xFE});
  CHECK(get_number<8>(bytes.data()) == 0xFEDCBA9876543210);
  put_number<1>(bytes.data(), 0xFF);
  CHECK(get_number<8>(bytes.data()) == 0xFEDCBA98765432FF);
}

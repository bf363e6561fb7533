#include "lockstep/core/crc32.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace ls = lockstep;

namespace {

std::uint32_t crc_of(std::string_view text, std::uint32_t previous = 0) {
  return ls::crc32(std::as_bytes(std::span(text)), previous);
}

}  // namespace

static_assert(ls::crc32({}) == 0);
static_assert(ls::crc32(std::array<std::byte, 32>{}) == 0x190A55AD);

TEST_CASE("crc32: known values, in one piece and in two") {
  CHECK(crc_of("123456789") == 0xCBF43926);
  CHECK(crc_of("The quick brown fox jumps over the lazy dog") == 0x414FA339);
  CHECK(crc_of("56789", crc_of("1234")) == 0xCBF43926);
}

#include "lockstep/core/crc.hpp"
#include "lockstep/core/crc_methods.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace ls = lockstep;

namespace {

std::uint32_t crc_of(std::string_view text, std::uint32_t previous = 0) {
  return ls::crc32(std::as_bytes(std::span(text)), previous);
}

}  // namespace

TEST_CASE("crc32: known values, in one piece and in two") {
  CHECK(crc_of("") == 0);
  CHECK(crc_of("123456789") == 0xCBF43926);
  CHECK(ls::crc32(std::array<std::byte, 32>{}) == 0x190A55AD);
  CHECK(crc_of("The quick brown fox jumps over the lazy dog") == 0x414FA339);
  CHECK(crc_of("56789", crc_of("1234")) == 0xCBF43926);
}

namespace {

std::uint32_t crc32c_of(std::string_view text, std::uint32_t previous = 0) {
  return ls::crc32c(std::as_bytes(std::span(text)), previous);
}

// The definition: one bit at a time.
std::uint32_t slow_crc(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~0U;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

}  // namespace

TEST_CASE("crc32c: test vectors of RFC 3720, B.4; that of 123456789 is e3069283" *
          doctest::test_suite("Keras: TensorBoard event file")) {
  CHECK(ls::crc32c({}) == 0);
  CHECK(crc32c_of("123456789") == 0xE3069283);
  std::array<std::byte, 32> bytes{};
  CHECK(ls::crc32c(bytes) == 0x8A9136AA);
  bytes.fill(std::byte{0xFF});
  CHECK(ls::crc32c(bytes) == 0x62A8AB43);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(i);
  CHECK(ls::crc32c(bytes) == 0x46DD794E);
  std::reverse(bytes.begin(), bytes.end());
  CHECK(ls::crc32c(bytes) == 0x113FDB5C);
}

TEST_CASE(
    "crc32c: every length, and any cut, equals the definition by the reflected polynomial "
    "82f63b78" *
    doctest::test_suite("Keras: TensorBoard event file")) {
  std::vector<std::byte> bytes;
  for (std::uint32_t i = 0; i < 70; ++i) {
    const std::span<const std::byte> all(bytes);
    const std::uint32_t expected = slow_crc(all);
    CHECK(ls::crc32c(all) == expected);
    for (std::size_t cut = 0; cut <= all.size(); ++cut)
      CHECK(ls::crc32c(all.subspan(cut), ls::crc32c(all.first(cut))) == expected);
    bytes.push_back(static_cast<std::byte>(i * 167 + 13));
  }
}

TEST_CASE(
    "crc32c: the tables and the machine's instruction agree, for every length, alignment and "
    "begin") {
  // Long enough for each way in which the instruction is used: three long lanes twice, short ones,
  // words, bytes.
  std::vector<std::byte> bytes(2 * 3 * 8192 + 2 * 3 * 256 + 40);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 89 + (i >> 8) * 7 + 7);
  const auto check = [&](std::size_t begin, std::size_t size, std::uint32_t previous) {
    const auto part = std::span<const std::byte>(bytes).subspan(begin, size);
    const bool same = ls::detail::crc_by_tables<ls::detail::castagnoli>(part, previous) ==
                      ls::crc32c(part, previous);
    if (!same) FAIL_CHECK("begin ", begin, ", size ", size);
  };
  for (std::size_t size = 0; size < 2000; ++size)
    check(size % 17, size, static_cast<std::uint32_t>(size * 2654435761U));
  for (const std::size_t lanes : {1U, 2U})
    for (std::size_t more = 0; more < 800; more += 3) {
      check(0, lanes * 3 * 8192 - 9 + more, 5);
      check(more % 8, lanes * 3 * 8192 + more, 0xFFFFFFFF);
    }
  for (std::size_t begin = 0; begin < 64; ++begin) check(begin, bytes.size() - begin, 0);
}

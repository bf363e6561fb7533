#include "lockstep/checkpoint/inflate.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/error.hpp"
#include "support/messages.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using ls::detail::ChunkFilter;
using Bytes = std::vector<std::byte>;

namespace {

/// What Python's zlib.compress makes of 3 zeros and the bytes 1 to 9.
constexpr std::array<std::uint8_t, 20> compressed{0x78, 0x9c, 0x63, 0x60, 0x60, 0x60, 0x64,
                                                  0x62, 0x66, 0x61, 0x65, 0x63, 0xe7, 0xe0,
                                                  0x04, 0x00, 0x00, 0xb1, 0x00, 0x2e};
Bytes twelve() {
  Bytes bytes(12);
  for (std::size_t i = 3; i < 12; ++i) bytes[i] = static_cast<std::byte>(i - 2);
  return bytes;
}
Bytes undone(std::span<const std::byte> stored, std::vector<ChunkFilter> filters,
             std::uint64_t size = 12, std::uint32_t skipped = 0) {
  return ls::detail::undo_filters("a", stored, filters, skipped, 4, size);
}
std::string refusal(std::span<const std::byte> stored, std::vector<ChunkFilter> filters,
                    std::uint64_t size = 12, std::uint32_t skipped = 0) {
  return message_of<ls::DataError>([&] { (void)undone(stored, filters, size, skipped); });
}

}  // namespace

TEST_CASE("chunk filters: undone in the other order, but for those that were skipped") {
  const Bytes plain = twelve();
  CHECK(undone(plain, {}) == plain);
  CHECK(undone(plain, {ChunkFilter::deflate, ChunkFilter::shuffle}, 12, 3) == plain);
  // The first bytes of three elements, the second ones, ...
  Bytes ordered(12);
  for (std::size_t i = 0; i < 12; ++i) ordered[i] = plain[i % 4 * 3 + i / 4];
  CHECK(undone(plain, {ChunkFilter::shuffle}) == ordered);
  Bytes longer = plain;
  longer.push_back(std::byte{77});  // stays behind the last whole element
  ordered.push_back(std::byte{77});
  CHECK(undone(longer, {ChunkFilter::shuffle}, 13) == ordered);
  ordered.pop_back();
  if (!ls::detail::can_inflate()) return;
  const auto stored = std::as_bytes(std::span(compressed));
  CHECK(undone(stored, {ChunkFilter::deflate}) == plain);
  CHECK(undone(stored, {ChunkFilter::shuffle, ChunkFilter::deflate}) == ordered);
  CHECK(undone(stored, {ChunkFilter::shuffle, ChunkFilter::deflate}, 12, 1) == plain);
}

TEST_CASE("chunk filters: a part that does not become as many bytes as it must is refused") {
  const Bytes plain = twelve();
  CHECK(refusal(plain, {}, 13) == "HDF5: a: damaged: a part has 12 bytes, expected 13");
  CHECK(refusal(plain, {}, 11) == "HDF5: a: damaged: a part has 12 bytes, expected 11");
  CHECK(contains(refusal(plain, {ChunkFilter::deflate}, 400, 1), "a part has 12 bytes"));
  if (!ls::detail::can_inflate()) return;
  const auto stored = std::as_bytes(std::span(compressed));
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{11}, std::uint64_t{13},
                                   std::uint64_t{1} << 20, ~std::uint64_t{0}})
    CHECK(contains(refusal(stored, {ChunkFilter::deflate}, size), "does not become the "));
  for (std::size_t size = 0; size < stored.size(); ++size)
    CHECK(refusal(stored.first(size), {ChunkFilter::deflate}) != "NO EXCEPTION");
  for (std::size_t i = 0; i < stored.size(); ++i)
    for (const auto bits : {std::byte{1}, std::byte{0x80}, std::byte{0xFF}}) {
      Bytes changed(stored.begin(), stored.end());
      changed[i] ^= bits;
      // (The last bits of the last block stand for nothing.)
      if (refusal(changed, {ChunkFilter::deflate}) == "NO EXCEPTION")
        CHECK(undone(changed, {ChunkFilter::deflate}) == twelve());
    }
}

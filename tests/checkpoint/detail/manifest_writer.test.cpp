#include "lockstep/checkpoint/detail/manifest_writer.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/core/state.hpp"

namespace ls = lockstep;
using Bytes = std::vector<unsigned>;

namespace {

/// What is written for these values, one after the other.
template <class... Values>
Bytes written(const Values&... values) {
  std::vector<std::byte> bytes;
  {
    ls::detail::ManifestWriter write(bytes);
    (write(values), ...);
  }
  Bytes numbers;
  for (const std::byte byte : bytes) numbers.push_back(std::to_integer<unsigned>(byte));
  return numbers;
}

/// The first byte, which says "little-endian", and these.
Bytes manifest(std::initializer_list<Bytes> parts) {
  Bytes all{1};
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// A number below 256 in 8 bytes.
Bytes number(unsigned value) { return {value, 0, 0, 0, 0, 0, 0, 0}; }

}  // namespace

// These are the bytes of checkpoints on disk: what changes them makes old files unreadable.

TEST_CASE("manifest writer: numbers are little-endian, in as many bytes as their type has") {
  CHECK(written() == manifest({}));
  CHECK(written(std::uint8_t{7}, std::uint32_t{0x01020304}) == manifest({{7}, {4, 3, 2, 1}}));
  CHECK(written(std::int64_t{-2}) == manifest({{254, 255, 255, 255, 255, 255, 255, 255}}));
  CHECK(written(-0.5) == manifest({{0, 0, 0, 0, 0, 0, 0xe0, 0xbf}}));
  CHECK(written(true, false) == manifest({{1}, {0}}));
}

TEST_CASE("manifest writer: a count stands before texts and lists, also before empty ones") {
  CHECK(written(std::string("ab")) == manifest({number(2), {'a', 'b'}}));
  CHECK(written(std::string()) == manifest({number(0)}));
  CHECK(written(std::vector<std::byte>{std::byte{9}, std::byte{200}}) ==
        manifest({number(2), {9, 200}}));
  CHECK(written(std::vector<std::uint32_t>{1, 2}) ==
        manifest({number(2), {1, 0, 0, 0}, {2, 0, 0, 0}}));
  CHECK(written(std::vector<std::string>{"a", "", "bc"}) ==
        manifest({number(3), number(1), {'a'}, number(0), number(2), {'b', 'c'}}));
  CHECK(written(std::string("a\0b", 3)) == manifest({number(3), {'a', 0, 'b'}}));
}

TEST_CASE("manifest writer: each entry of a record has its name, its type and its value") {
  ls::State record;
  record.put("i", std::int64_t{5});
  record.put("t", std::string("x"));
  CHECK(
      written(record) ==
      manifest(
          {number(2), number(1), {'i'}, {0}, number(5), number(1), {'t'}, {2}, number(1), {'x'}}));
  CHECK(written(ls::State{}) == manifest({number(0)}));
}

TEST_CASE("manifest writer: of an array its name, type, extents, size and CRC-32C, no elements") {
  // 0xe3069283 is the check value of CRC-32C: that of "123456789".
  std::vector<std::byte> elements;
  for (const char c : std::string("123456789")) elements.push_back(static_cast<std::byte>(c));
  CHECK(written(ls::SavedArray{.name = "w", .scalar = "f", .extents = {3, 1}, .bytes = elements}) ==
        manifest({number(1),
                  {'w'},
                  number(1),
                  {'f'},
                  number(2),
                  number(3),
                  number(1),
                  number(9),
                  {0x83, 0x92, 0x06, 0xe3}}));
}

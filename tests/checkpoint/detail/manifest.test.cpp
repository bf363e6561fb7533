#include "lockstep/checkpoint/detail/manifest.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_testing.hpp"
#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/core/state.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using Bytes = std::vector<unsigned>;
using namespace lockstep::detail;
using namespace lockstep_test;

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

// These are the bytes of checkpoints on disk: what changes them makes earlier files unreadable.

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

TEST_CASE("manifest: numbers, texts, lists and records come back in order, and no byte is left") {
  std::vector<std::byte> bytes;
  ls::State record;
  record.put("best", 0.5);
  {
    ls::detail::ManifestWriter write(bytes);
    write(std::uint64_t{7});
    write(std::string("text"));
    write(std::vector<double>{1, -0.5});
    write(std::vector<ls::State>{record, {}});
  }
  ls::detail::ManifestReader read(bytes);
  std::uint64_t number = 0;
  std::string text;
  std::vector<double> list;
  std::vector<ls::State> records;
  read(number);
  read(text);
  read(list);
  CHECK_THROWS_AS(read.expect_end(), ls::DataError);
  read(records);
  read.expect_end();
  CHECK(number == 7);
  CHECK(text == "text");
  CHECK(list == std::vector<double>{1, -0.5});
  CHECK(records == std::vector<ls::State>{record, {}});
}

TEST_CASE("manifest: of an array all but its elements, which have their size and checksum") {
  const std::vector<std::byte> elements(8, std::byte{3});
  std::vector<std::byte> bytes;
  {
    ls::detail::ManifestWriter write(bytes);
    write(ls::SavedArray{.name = "bias", .scalar = "float32", .extents = {2}, .bytes = elements});
  }
  ls::detail::ManifestReader read(bytes);
  ls::detail::ArrayEntry entry;
  read(entry);
  read.expect_end();
  CHECK(entry.name == "bias");
  CHECK(entry.scalar == "float32");
  CHECK(entry.extents == std::vector<std::uint64_t>{2});
  CHECK(entry.size == 8);
  CHECK(entry.crc == ls::crc32c(elements));
}

TEST_CASE("manifest: a size that the bytes cannot have is refused before memory is taken") {
  std::vector<std::byte> bytes;
  {
    ls::detail::ManifestWriter write(bytes);
    write(std::uint64_t{1} << 60);
  }
  ls::detail::ManifestReader read(bytes);
  std::string text;
  CHECK(contains(message_of<ls::DataError>([&] { read(text); }),
                 "elements are announced where 0 bytes are left"));
}

namespace {

ls::TrainingState without_arrays(ls::TrainingState state) {
  state.parameters = {};
  state.state = {};
  state.slots = {};
  return state;
}

/// What write writes, read by read_sections.
template <class Write>
ls::TrainingState back(Write write) {
  std::vector<std::byte> bytes;
  {
    ManifestWriter writer(bytes);
    write(writer);
  }
  ManifestReader reader(bytes);
  ls::TrainingState state;
  read_sections(reader, state);
  reader.expect_end();
  return state;
}

}  // namespace

TEST_CASE("snapshot sections: every field but the arrays comes back") {
  const ls::TrainingState state = full_state();
  CHECK(back([&](auto& writer) { write_sections(writer, state); }) == without_arrays(state));
}

TEST_CASE("snapshot sections: 'model' and 'fit' have one record each") {
  const auto message = [](auto write) {
    return message_of<ls::DataError>([&] { (void)back(write); });
  };
  CHECK(contains(message([](auto& writer) { writer(std::uint64_t{0}); }),
                 "'model' and 'fit', got 0 and 0"));
  const auto two_records = [](auto& writer) {
    writer(std::uint64_t{1});
    writer(std::string("fit"));
    writer(std::vector<ls::State>(2));
  };
  CHECK(contains(message(two_records), "got 0 and 2"));
}

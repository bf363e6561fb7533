// How damaged files are refused is tested in npz.test.cpp, and what Python makes of these files in
// weights_file.test.cpp.
#include "lockstep/core/zip.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/damage.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using lockstep_test::contains;
using lockstep_test::message_of;

namespace {

using Bytes = std::vector<std::byte>;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Bytes two_files() {
  ls::detail::ZipWriter writer(0);
  writer.add("a", bytes_of("head and "), bytes_of("body"));
  writer.add("folder/empty", {}, {});
  return std::move(writer).finish();
}

}  // namespace

TEST_CASE("zip: entries are found in order, and lie in the given memory") {
  const Bytes zip = two_files();
  const auto entries = ls::detail::read_zip_directory(zip);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].name == "a");
  CHECK(text_of(entries[0].data) == "head and body");
  CHECK(entries[0].size == 13);
  CHECK(entries[0].crc == ls::crc32(bytes_of("head and body")));
  CHECK_FALSE(entries[0].deflated);
  CHECK(entries[0].data.data() > zip.data());
  CHECK(entries[0].data.data() < zip.data() + zip.size());
  CHECK(entries[1].name == "folder/empty");
  CHECK(entries[1].size == 0);
  CHECK(ls::detail::read_zip_directory(ls::detail::ZipWriter(0).finish()).empty());
}

TEST_CASE("zip: a comment at the end, also one that looks like an end") {
  for (const std::string& comment :
       {std::string("made by hand"), std::string("PK\x05\x06") + std::string(30, '\0'),
        std::string(65'535, 'x')}) {
    Bytes zip = two_files();
    zip[zip.size() - 2] = static_cast<std::byte>(comment.size() & 0xFF);
    zip[zip.size() - 1] = static_cast<std::byte>(comment.size() >> 8);
    zip.insert(zip.end(), bytes_of(comment).begin(), bytes_of(comment).end());
    CHECK(ls::detail::read_zip_directory(zip).size() == 2);
  }
}

TEST_CASE("zip: every truncation is refused") {
  lockstep_test::check_truncations(
      [](std::span<const std::byte> zip) { return ls::detail::read_zip_directory(zip).size(); },
      two_files());
}

TEST_CASE("zip: the writer refuses what needs zip64") {
  const auto refused = [](auto write) {
    return contains(message_of<ls::DataError>([&] {
                      ls::detail::ZipWriter writer(0);
                      write(writer);
                      const Bytes zip = std::move(writer).finish();
                      CHECK_FALSE(ls::detail::read_zip_directory(zip).empty());
                    }),
                    "zip: the file would have 4 GiB, 65,535 entries or more");
  };
  CHECK_FALSE(refused([](auto& writer) { writer.add(std::string(65'535, 'n'), {}, {}); }));
  CHECK(refused([](auto& writer) { writer.add(std::string(65'536, 'n'), {}, {}); }));
  CHECK_FALSE(refused([](auto& writer) {
    for (int i = 0; i < 65'534; ++i) writer.add("", {}, {});
  }));
  CHECK(refused([](auto& writer) {
    for (int i = 0; i < 65'535; ++i) writer.add("", {}, {});
  }));
  CHECK(refused([](auto& writer) {
    const std::byte one{};
    writer.add("large", {}, {&one, 0xFFFFFFFF});  // (refused before anything of it is read)
  }));
}

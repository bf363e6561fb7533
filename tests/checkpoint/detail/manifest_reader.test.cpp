#include "lockstep/checkpoint/detail/manifest_reader.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/checkpoint/detail/manifest_writer.hpp"
#include "lockstep/core/crc32c.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using lockstep_test::contains;
using lockstep_test::message_of;

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

// What the real NumPy makes of these files is tested in weights_file.test.cpp.
#include "lockstep/checkpoint/weights_file.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint_testing.hpp"
#include "checkpoint/damage.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/zip.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using lockstep_test::contains;
using lockstep_test::message_of;
using lockstep_test::some_arrays;

namespace {

using Bytes = std::vector<std::byte>;

std::string refusal(const Bytes& bytes) {
  return message_of<ls::DataError>([&] { (void)ls::decode_npz(bytes); });
}

/// A file with one entry "a.npy", of version 1, with a header written by hand.
Bytes npz_of(std::string_view header, const Bytes& elements, unsigned version = 1) {
  std::string head = "\x93NUMPY";
  head += static_cast<char>(version);
  head += '\0';
  for (std::size_t i = 0; i < (version == 1 ? 2 : 4); ++i)
    head += static_cast<char>(header.size() >> (8 * i));
  head += header;
  ls::detail::ZipWriter writer(0);
  writer.add("a.npy", std::as_bytes(std::span(head)), elements);
  return std::move(writer).finish();
}

std::vector<float> floats(const ls::SavedArray& array) {
  std::vector<float> values(array.bytes.size() / sizeof(float));
  std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}
Bytes bytes_of(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// Puts `number` at `offset` behind the first place of the four bytes of `mark`.
Bytes changed(Bytes bytes, std::string_view mark, std::size_t offset, std::uint64_t number,
              std::size_t size) {
  const auto at = std::search(bytes.begin(), bytes.end(), std::as_bytes(std::span(mark)).begin(),
                              std::as_bytes(std::span(mark)).end());
  REQUIRE(at != bytes.end());
  std::memcpy(&*at + offset, &number, size);
  return bytes;
}

}  // namespace

TEST_CASE("npz: arrays come back") {
  CHECK(ls::decode_npz(ls::encode_npz(some_arrays())) == some_arrays());
  CHECK(ls::decode_npz(ls::encode_npz({})).empty());
}

TEST_CASE("npz: headers of versions 1 to 3, in any order and with either quote") {
  for (const unsigned version : {1u, 2u, 3u}) {
    const auto arrays =
        ls::decode_npz(npz_of("{\"shape\": (2,), 'fortran_order': False, 'descr': '<f4'}  \n",
                              bytes_of({1, 2}), version));
    REQUIRE(arrays.size() == 1);
    CHECK(arrays[0].extents == std::vector<std::uint64_t>{2});
    CHECK(floats(arrays[0]) == std::vector<float>{1, 2});
  }
}

TEST_CASE("npz: Fortran's order becomes row-major") {
  const auto arrays =
      ls::decode_npz(npz_of("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n",
                            bytes_of({11, 21, 12, 22, 13, 23})));
  CHECK(floats(arrays.at(0)) == std::vector<float>{11, 12, 13, 21, 22, 23});
  std::vector<float> cube(24), expected(24);
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 3; ++j)
      for (std::size_t k = 0; k < 4; ++k)
        cube[i + 2 * j + 6 * k] = expected[12 * i + 4 * j + k] =
            static_cast<float>(100 * i + 10 * j + k);
  const auto cubes = ls::decode_npz(
      npz_of("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3, 4), }\n", bytes_of(cube)));
  CHECK(floats(cubes.at(0)) == expected);
}

TEST_CASE("npz: entries that are no .npy files are refused, and the message says why") {
  const auto refused = [](std::string_view header, std::size_t size = 4) {
    return refusal(npz_of(header, Bytes(size)));
  };
  CHECK(refused("{'descr': '<f4', 'fortran_order': False, 'shape': ()}") == "NO EXCEPTION");
  CHECK(contains(refused("{'descr': '<i4', 'fortran_order': False, 'shape': ()}"),
                 "array 'a': expected elements of type '<f4', '<f8' or '<f2', got '<i4' (int32)"));
  CHECK(contains(refused("{'descr': '|i1', 'fortran_order': False, 'shape': ()}"),
                 "got '|i1' (int8)"));
  CHECK(contains(refused("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}"),
                 "array 'a': it is a structured array, [('a', '<f4')]: save each of its fields"));
  CHECK(contains(refused("{'descr': '>f4', 'fortran_order': False, 'shape': ()}"),
                 "got '>f4' (float32, big-endian)"));
  CHECK(contains(refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"),
                 "the shape (2) cannot have 4 bytes"));
  CHECK(contains(
      refused("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 0),
      "cannot have 0 bytes"));
  for (const char* header :
       {"", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x",
        "{'descr': '<f4, 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'descr': '<f4', 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': ''}"}) {
    CAPTURE(header);
    CHECK(contains(refused(header), "the header is no .npy header"));
  }
  std::string ones = "1,";  // an array may have as many extents as NumPy's, and no more
  for (int doubled = 0; doubled < 6; ++doubled) ones += ones;
  const std::string begin = "{'descr': '<f4', 'fortran_order': True, 'shape': (";
  CHECK(refused(begin + ones + ")}") == "NO EXCEPTION");
  CHECK(contains(refused(begin + ones + "1)}"), "array 'a': the shape has more than 64 extents"));
  CHECK(contains(refusal(npz_of("{}", {}, 4)), "expected .npy version 1 to 3, got 4"));
}

TEST_CASE("npz: inconsistent zip files are refused, and the message says why") {
  const Bytes good = ls::encode_npz(some_arrays());
  constexpr std::string_view directory = "PK\x01\x02", end = "PK\x05\x06", local = "PK\x03\x04";
  CHECK(contains(refusal(Bytes(100)), "these 100 bytes are no zip file"));
  CHECK(contains(refusal(changed(good, directory, 8, 1, 2)),
                 "entry 'dense/kernel.npy' is encrypted"));
  CHECK(contains(refusal(changed(good, directory, 10, 14, 2)), "has compression 14"));
  CHECK(contains(refusal(changed(good, directory, 20, 0xFFFFFFFF, 4)), "zip64"));
  CHECK(contains(refusal(changed(good, directory, 24, 1, 4)), "two different sizes"));
  CHECK(contains(refusal(changed(good, directory, 42, 1, 4)), "is damaged or cut off"));
  CHECK(contains(refusal(changed(good, directory, 42, 0x7FFFFFFF, 4)), "lies behind the end"));
  CHECK(contains(refusal(changed(good, directory, 46, 'D', 1)),
                 "has another name in its own header"));
  CHECK(contains(refusal(changed(good, directory, 16, 5, 4)), "the checksum does not match"));
  CHECK(contains(refusal(changed(good, local, 130, 5, 1)), "the checksum does not match"));
  CHECK(contains(refusal(changed(good, end, 4, 1, 2)), "several parts"));
  CHECK(contains(refusal(changed(good, end, 8, 0xFFFFFFFF, 4)), "zip64"));
  CHECK(contains(refusal(changed(good, end, 8, 0x00050005, 4)),
                 "entry 4 of the directory is damaged"));
  CHECK(contains(refusal(changed(good, end, 8, 0x00030003, 4)), "more entries"));
  CHECK(contains(refusal(changed(good, end, 16, 0, 4)), "the directory is not where"));
  Bytes two = ls::encode_npz(std::vector<ls::SavedArray>{some_arrays()[0], some_arrays()[0]});
  CHECK(contains(refusal(two), "array 'dense/kernel': it is there twice"));
  const auto second =
      std::search(two.rbegin(), two.rend(), std::as_bytes(std::span(directory)).rbegin(),
                  std::as_bytes(std::span(directory)).rend());
  std::fill_n(&*second - 3 + 42, 4, std::byte{0});
  CHECK(contains(refusal(two), "two entries overlap"));
  ls::detail::ZipWriter writer(0);
  writer.add("a.txt", {}, {});
  CHECK(contains(refusal(std::move(writer).finish()), "'a.txt': the entry is no .npy file"));
}

TEST_CASE(
    "npz: an entry that claims to deflate to more than it can is refused before memory is taken") {
  const Bytes good =
      ls::encode_npz(std::vector<ls::SavedArray>{{.name = "a", .extents = {}, .bytes = Bytes(4)}});
  const Bytes deflated = changed(good, "PK\x01\x02", 10, 8, 2);
#if defined(LOCKSTEP_HAS_ZLIB)
  CHECK(contains(refusal(changed(deflated, "PK\x01\x02", 24, 0x7FFFFFFF, 4)),
                 "deflated bytes cannot become 2147483647"));
  CHECK(contains(refusal(deflated), "the deflated data are damaged"));
#else
  CHECK(contains(refusal(deflated), "without zlib"));
#endif
}

TEST_CASE("npz: every truncation is refused") {
  lockstep_test::check_truncations(ls::decode_npz, ls::encode_npz(some_arrays()));
}

TEST_CASE("npz: 10,000 changed bytes: refused, or without effect") {
  CHECK(lockstep_test::silent_changes(ls::decode_npz, ls::encode_npz(some_arrays()),
                                      some_arrays()) == 0);
}

// What the real Python package makes of these files is tested in weights_file.test.cpp.
#include "lockstep/checkpoint/weights_file.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint_testing.hpp"
#include "checkpoint/damage.hpp"
#include "lockstep/core/error.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using lockstep_test::contains;
using lockstep_test::message_of;
using lockstep_test::some_arrays;

namespace {

using Bytes = std::vector<std::byte>;

/// A file with a header written by hand, and `data_size` bytes of data.
Bytes file_of(std::string_view header, std::size_t data_size = 0) {
  Bytes bytes(8 + header.size() + data_size);
  const std::uint64_t size = header.size();
  std::memcpy(bytes.data(), &size, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  return bytes;
}

std::string refusal(const Bytes& bytes) {
  return message_of<ls::DataError>([&] { (void)ls::decode_safetensors(bytes); });
}
std::string refusal(std::string_view header, std::size_t data_size = 0) {
  return refusal(file_of(header, data_size));
}

}  // namespace

TEST_CASE("safetensors: arrays come back") {
  CHECK(ls::decode_safetensors(ls::encode_safetensors(some_arrays())) == some_arrays());
  CHECK(ls::decode_safetensors(ls::encode_safetensors({})).empty());
  const std::vector<ls::SavedArray> odd = {
      {.name = "a \"quoted\\\" name\n\x01 \xC3\xA9", .extents = {0}, .bytes = {}}};
  CHECK(ls::decode_safetensors(ls::encode_safetensors(odd)) == odd);
}

TEST_CASE("safetensors: the header is JSON with a size of a multiple of eight") {
  const Bytes bytes = ls::encode_safetensors(
      std::vector<ls::SavedArray>{{.name = "b", .extents = {1, 2}, .bytes = Bytes(8)},
                                  {.name = "a", .extents = {}, .bytes = Bytes(4)}});
  const std::string text(reinterpret_cast<const char*>(bytes.data()) + 8, bytes.size() - 8 - 12);
  CHECK(text.size() % 8 == 0);
  CHECK(text.starts_with(R"({"b":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                         R"("a":{"dtype":"F32","shape":[],"data_offsets":[8,12]}})"));
}

TEST_CASE(
    "safetensors: entries may come in any order, with metadata and spaces; arrays come back in the "
    "order of their "
    "elements") {
  const auto arrays =
      ls::decode_safetensors(file_of(R"({"z" : {"data_offsets":[4,12],"dtype":"F64","shape":[1]},
      "__metadata__":{"format":"pt"}, "y":{"shape":[],"dtype":"F32","data_offsets":[0,4]} }   )",
                                     12));
  REQUIRE(arrays.size() == 2);
  CHECK(arrays[0].name == "y");
  CHECK(arrays[1].scalar == "float64");
}

TEST_CASE("safetensors: numbers of 16 bits become float32") {
  Bytes bytes = file_of(R"({"h":{"dtype":"F16","shape":[6],"data_offsets":[0,12]},
                            "b":{"dtype":"BF16","shape":[2],"data_offsets":[12,16]}})",
                        16);
  const std::uint16_t numbers[] = {0x3C00, 0xC000, 0x0001, 0x7BFF, 0xFC00, 0x8000, 0x3F80, 0xC040};
  std::memcpy(bytes.data() + bytes.size() - 16, numbers, 16);
  const auto arrays = ls::decode_safetensors(bytes);
  REQUIRE(arrays.size() == 2);
  CHECK(arrays[0].scalar == "float32");
  float halves[6], brains[2];
  REQUIRE(arrays[0].bytes.size() == sizeof halves);
  REQUIRE(arrays[1].bytes.size() == sizeof brains);
  std::memcpy(halves, arrays[0].bytes.data(), sizeof halves);
  std::memcpy(brains, arrays[1].bytes.data(), sizeof brains);
  const float expected[] = {1, -2, 0x1p-24F, 65504, -INFINITY, -0.0F};
  CHECK(std::memcmp(halves, expected, sizeof halves) == 0);
  CHECK(brains[0] == 1);
  CHECK(brains[1] == -3);
}

TEST_CASE("safetensors: inconsistent files are refused, and the message says why") {
  CHECK(contains(refusal(Bytes(7)), "these 7 bytes are no safetensors file"));
  CHECK(contains(refusal(Bytes(8)), "does not begin with '{'"));
  Bytes huge = file_of("{}");
  for (const std::uint64_t size :
       {std::uint64_t{3}, std::uint64_t{1} << 60, ~std::uint64_t{0}, ~std::uint64_t{7}}) {
    std::memcpy(huge.data(), &size, 8);
    CHECK(contains(refusal(huge), "the header is said to have"));
  }
  CHECK(contains(refusal("[]"), "does not begin with '{'"));
  CHECK(contains(refusal("{} x"), "no JSON"));
  CHECK(contains(refusal("{\"a\":"), "no JSON"));
  CHECK(contains(refusal(std::string(1, '{') + std::string(5000, '[')), "no JSON"));
  CHECK(contains(refusal(R"({"a":5})"), "unexpected a number in the header at 'a'"));
  CHECK(contains(refusal(R"({"a":"F32"})"), "unexpected a text"));
  CHECK(contains(refusal(R"({"a":null})"), "unexpected null"));
  CHECK(contains(refusal(R"({"a":[1]})"), "unexpected a list"));
  CHECK(contains(refusal(R"({"a":{"dtype":{}}})"), "unexpected an object"));
  CHECK(contains(refusal(R"({"a":{"shape":[[1]]}})"), "unexpected a list"));
  CHECK(contains(refusal(R"({"a":{"shape":[-1]}})"), "unexpected a negative number"));
  CHECK(contains(refusal(R"({"a":{"shape":[1.5]}})"), "not whole"));
  CHECK(contains(refusal(R"({"a":{"shape":["1"]}})"), "unexpected a text"));
  CHECK(contains(refusal(R"({"a":{"shape":[18446744073709551616]}})"), "not whole"));
  CHECK(contains(refusal(R"({"__metadata__":{"a":{}}})"), "unexpected an object"));
  CHECK(contains(refusal(R"({"__metadata__":{"a":1}})"), "unexpected a number"));
  CHECK(contains(refusal(R"({"a":{"colour":"F32"}})"), "array 'a' has the unknown field 'colour'"));
  CHECK(contains(refusal(R"({"a":{"dtype":"F32","shape":[]}})"), "array 'a' has no data_offsets"));
  CHECK(contains(refusal(R"({"a":{"dtype":"F32","dtype":"F32"}})"), "'dtype' stands twice"));
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  CHECK(contains(refusal("{" + a + "," + a + "}", 4), "'a' stands twice"));
  CHECK(contains(refusal("{" + a + "}", 3),
                 "at bytes 0 to 4, expected a begin at 0 and an end up to 3"));
  CHECK(contains(refusal("{" + a + "}", 5), "1 bytes at the end belong to no array"));
  const auto with = [&](std::string_view b) {
    return "{" + a + ",\"b\":{" + std::string(b) + "}}";
  };
  CHECK(refusal(with(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), 8) == "NO EXCEPTION");
  CHECK(contains(refusal(with(R"("dtype":"F32","shape":[1],"data_offsets":[2,6])"), 8),
                 "array 'b' is at bytes 2 to 6"));
  CHECK(contains(refusal(with(R"("dtype":"F32","shape":[1],"data_offsets":[5,9])"), 9),
                 "expected a begin at 4"));
  CHECK(contains(refusal(with(R"("dtype":"F32","shape":[1],"data_offsets":[4,2])"), 8),
                 "array 'b' is at bytes 4 to 2"));
  CHECK(contains(refusal(with(R"("dtype":"F32","shape":[2],"data_offsets":[4,8])"), 8),
                 "array 'b' (2) of F32 cannot"));
  CHECK(contains(refusal(with(R"("dtype":"I64","shape":[1],"data_offsets":[4,12])"), 12),
                 "has dtype 'I64'"));
  CHECK(contains(
      refusal(with(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[4,4])"), 4),
      "cannot have 0"));
  CHECK(contains(refusal(with(R"("dtype":"F32","shape":[1],"data_offsets":[4])"), 8),
                 "1 data_offsets"));
  std::string ones = "1,";  // an array may have as many extents as NumPy's, and no more
  for (int doubled = 0; doubled < 6; ++doubled) ones += ones;
  const auto with_shape = [&](const std::string& extents) {
    return refusal(with("\"dtype\":\"F32\",\"shape\":[" + extents + "],\"data_offsets\":[4,8]"), 8);
  };
  CHECK(with_shape(ones.substr(0, ones.size() - 1)) == "NO EXCEPTION");
  CHECK(contains(with_shape(ones + "1"), "array 'b': a list has more than 64 numbers"));
}

TEST_CASE("safetensors: every truncation is refused") {
  lockstep_test::check_truncations(ls::decode_safetensors, ls::encode_safetensors(some_arrays()));
}

TEST_CASE(
    "safetensors: 10,000 changed bytes: refused, or other elements or names, never other sizes") {
  // The format has no checksum, so that only the structure can be checked.
  const auto shapes = [](std::span<const std::byte> bytes) {
    std::vector<std::size_t> sizes;
    for (const ls::SavedArray& array : ls::decode_safetensors(bytes))
      sizes.push_back(array.bytes.size());
    return sizes;
  };
  const Bytes bytes = ls::encode_safetensors(some_arrays());
  CHECK(lockstep_test::silent_changes(shapes, bytes, shapes(bytes)) == 0);
}

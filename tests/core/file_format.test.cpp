#include "lockstep/core/file_format.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

namespace ls = lockstep;
using namespace std::string_literals;
using namespace std::string_view_literals;

TEST_CASE("known_format: what begins like something known") {
  struct Case {
    std::string_view head, words;
  };
  const std::string tar = std::string(257, 'a') + "ustar\0"s;
  for (const Case& expected : {
           Case{"version https://git-lfs.github.com/spec/v1\noid sha256:00",
                "a Git LFS pointer, not the file that it stands for: run git lfs pull"},
           {"\x1f\x8b\x08", "compressed with gzip: decompress it first (gunzip)"},
           {"\xFD\x37zXZ\0"sv, "compressed with xz: decompress it first (unxz)"},
           {"PK\3\4....", "a zip file (also .npz, .keras, .pt and .xlsx are)"},
           {tar, "a tar archive"},
           {"\x89HDF\r\n\x1a\n", "an HDF5 file"},
           {"\x93NUMPY\1", "an array of NumPy (.npy)"},
           {"GIF89a\1", "a GIF image"},
           {"BM\x36\1\0\0\0\0\0\0\x36\0"sv, "a BMP image"},
           {"RIFF\1\0\0\0WEBPVP8 "sv, "a WebP image"},
           {"II*\0\0"sv, "a TIFF image"},
           {"\xFF\xFE"
            "a\0"sv,
            "a text in UTF-16: save it as UTF-8"},
           {" \n<!DOCTYPE HTML>",
            "a page of HTML or XML: perhaps an error of the server that it was fetched from"},
           {"{\n  \"metadata\": {\"total_size\": 1",
            "an index of shards in JSON, which names the files that have the weights, and has "
            "none"},
           {"{\"a\": 1}", "JSON"},
           {"", "empty"},
       }) {
    CHECK(ls::detail::known_format(expected.head) == expected.words);
    CHECK(ls::detail::format_note(expected.head) == "; it is " + std::string(expected.words));
  }
}

TEST_CASE("known_format: numbers, texts and cut off marks are of no known kind") {
  for (const std::string_view head :
       {"a,b\n1,2\n"sv, "1"sv, "\x89PN"sv, "PK"sv, "RIFF"sv, "\0\0\x08\3"sv, "BMI,age\n"sv,
        "BMI\x1f age\x1f width"sv, "PAR1,PAR2\n"sv, "{a}"sv}) {
    CHECK(ls::detail::known_format(head).empty());
    CHECK(ls::detail::format_note(head).empty());
  }
  // Found at the beginning or not at all, however long the file.
  CHECK(ls::detail::known_format(std::string(100'000, ' ') + "<html>").empty());
}

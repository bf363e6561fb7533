#include "lockstep/core/npy_header.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"

using lockstep::DataError;
using lockstep::detail::NpyHeader;
using Extents = std::vector<std::uint64_t>;

namespace {

/// A file of this version with this dictionary, and `rest` behind it. (The form is in the
/// documentation of numpy.lib.format.)
std::string file(const std::string& dictionary, unsigned version = 1,
                 const std::string& rest = "elements") {
  std::string text = "\x93NUMPY";
  text += static_cast<char>(version);
  text += '\0';
  for (unsigned i = 0; i < (version == 1 ? 2u : 4u); ++i)
    text += static_cast<char>((dictionary.size() >> (8 * i)) & 0xff);
  return text + dictionary + rest;
}
NpyHeader header_of(const std::string& file) {
  return NpyHeader("x.npy", std::as_bytes(std::span(file)));
}

}  // namespace

TEST_CASE("npy header: versions 1 to 3, and where the elements begin") {
  const std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n";
  for (const unsigned version : {1u, 2u, 3u}) {
    CAPTURE(version);
    const std::string text = file(dictionary, version);
    const NpyHeader header = header_of(text);
    CHECK(header.descr() == "<f4");
    CHECK_FALSE(header.fortran_order());
    CHECK(header.shape() == Extents{3, 4});
    CHECK(text.substr(header.size()) == "elements");
  }
}

TEST_CASE("npy header: keys in any order, other quotes, and tuples as Python writes them") {
  const NpyHeader header = header_of(file(R"({"shape":(7,),"fortran_order":True,"descr":"|u1"})"));
  CHECK(header.descr() == "|u1");
  CHECK(header.fortran_order());
  CHECK(header.shape() == Extents{7});
  const auto shape = [](const std::string& tuple) {
    return header_of(file("{'descr': '<f8', 'fortran_order': False, 'shape': " + tuple + "}"))
        .shape();
  };
  CHECK(shape("()").empty());
  CHECK(shape("(0, 2)") == Extents{0, 2});
  CHECK(shape("(3L, 2L)") == Extents{3, 2});  // of Python 2
  CHECK(shape("(18446744073709551615,)") == Extents{18'446'744'073'709'551'615u});
}

TEST_CASE("npy header: what is none is refused, with the file's name") {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
  CHECK_THROWS_WITH_AS((void)header_of("PK\x03\x04 and what a zip has"),
                       "x.npy: the entry is no .npy file; it is a zip file (also .npz, .keras, .pt "
                       "and .xlsx are)",
                       DataError);
  CHECK_THROWS_WITH_AS(
      (void)header_of(file("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (3,)}")),
      "x.npy: it is a structured array, [('x', '<f4')]: save each of its fields as a "
      "separate array, array['x']",
      DataError);
  CHECK_THROWS_WITH_AS((void)header_of(file(good, 4)), "x.npy: expected .npy version 1 to 3, got 4",
                       DataError);
  const std::string text = file(good, 1, "");
  CHECK_THROWS_WITH_AS((void)header_of(text.substr(0, text.size() - 1)),
                       "x.npy: the header is cut off", DataError);
  for (const char* const wrong :
       {"", "{}", "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': false, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [3]}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} more"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS((void)header_of(file(wrong)), "x.npy: the header is no .npy header",
                         DataError);
  }
}

TEST_CASE("npy header: types in words") {
  const std::pair<const char*, const char*> names[] = {
      {"|i1", "'|i1' (int8)"},
      {"<f2", "'<f2' (float16)"},
      {">u4", "'>u4' (uint32, big-endian)"},
      {"<c16", "'<c16' (complex128)"},
      {"|O", "'|O' (objects of Python, which are pickled)"},
      {"<U7", "'<U7' (texts)"},
      {"<M8[ns]", "'<M8[ns]' (times)"},
      {"|V2", "'|V2' (raw bytes; of bfloat16 or another type that NumPy does not have)"},
      {"\x1b[2J", "'?[2J' (a type that is not known here)"},
      {"", "'' (a type that is not known here)"}};
  for (const auto& [descr, text] : names) CHECK(lockstep::detail::npy_type_text(descr) == text);
}

TEST_CASE("npy header: as many extents as an array of NumPy may have") {
  const auto shape = [](int extents) {
    std::string tuple;
    for (int i = 0; i < extents; ++i) tuple += "1,";
    return header_of(file("{'descr': '<f4', 'fortran_order': False, 'shape': (" + tuple + ")}"))
        .shape();
  };
  CHECK(shape(64).size() == 64);
  CHECK_THROWS_WITH_AS((void)shape(65), "x.npy: the shape has more than 64 extents", DataError);
}

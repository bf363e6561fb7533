#include "lockstep/core/utf8.hpp"

#include <doctest/doctest.h>

#include <string_view>

namespace ls = lockstep;
using namespace std::string_view_literals;

TEST_CASE("is_utf8: texts of every length of encoding") {
  for (const std::string_view text :
       {""sv, "dense_1"sv, "a\0b"sv, "\x7F"sv, "\xC2\x80"sv, "\xDF\xBF"sv, "\xE0\xA0\x80"sv,
        "\xED\x9F\xBF"sv, "\xEF\xBF\xBF"sv, "\xF0\x90\x80\x80"sv, "\xF4\x8F\xBF\xBF"sv,
        "sch\xC3\xB6n"sv}) {
    CAPTURE(text);
    CHECK(ls::is_utf8(text));
  }
}

TEST_CASE(
    "is_utf8: bytes out of place, cut off, longer than needed, surrogates, and what is above "
    "Unicode") {
  for (const std::string_view bytes :
       {"\x80"sv, "\xBF"sv, "a\xC3"sv, "\xC3\x28"sv, "\xC0\x80"sv, "\xC1\xBF"sv, "\xE0\x9F\xBF"sv,
        "\xE2\x82"sv, "\xE2\x28\xA1"sv, "\xED\xA0\x80"sv, "\xF0\x8F\xBF\xBF"sv,
        "\xF4\x90\x80\x80"sv, "\xF5\x80\x80\x80"sv, "\xF0\x90\x80"sv, "\xFF"sv, "latin \xE9"sv}) {
    CAPTURE(bytes);
    CHECK_FALSE(ls::is_utf8(bytes));
  }
}

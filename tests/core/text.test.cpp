#include "lockstep/core/text.hpp"
#include "lockstep/core/error.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

#include "support/comma_locale.hpp"

namespace ls = lockstep;

TEST_CASE("concat: texts and numbers, the latter as short as they can be read back") {
  CHECK(ls::concat({}).empty());
  CHECK(ls::concat({"got ", 3, " of ", std::string("many"), ": ", 0.1, ", ", 1e-7}) ==
        "got 3 of many: 0.1, 1e-07");
  CHECK(ls::concat({std::numeric_limits<std::int64_t>::min(), " ",
                    std::numeric_limits<std::uint64_t>::max()}) ==
        "-9223372036854775808 18446744073709551615");
}

TEST_CASE("numbers: the forms of printf, and the fewest digits that read back") {
  using ls::NumberForm;
  CHECK(ls::number_text(1234.5, NumberForm::fixed, 2) == "1234.50");
  CHECK(ls::number_text(-0.5, NumberForm::scientific, 1) == "-5.0e-01");
  CHECK(ls::number_text(1e10, NumberForm::general, 6) == "1e+10");
  CHECK(ls::number_text(0.1, NumberForm::fixed) == "0.1");
  CHECK(ls::number_text(1e22, NumberForm::fixed) == "10000000000000000000000");
  CHECK(ls::number_text(-std::numeric_limits<double>::max(), NumberForm::fixed, 3).size() == 314);
  CHECK(ls::number_text(std::numeric_limits<double>::denorm_min(), NumberForm::fixed).size() > 300);
  CHECK(ls::number_text(std::numeric_limits<double>::infinity(), NumberForm::fixed, 3) == "inf");
  CHECK(ls::hex_text(0xE9B6, 8) == "0000e9b6");
  CHECK(ls::hex_text(~std::uint64_t{0}, 8) == "ffffffff");
}

TEST_CASE("numbers: no locale of the program changes them") {
  const lockstep_test::CommaLocale locale;
  if (!locale.has_printf())
    MESSAGE("printf does not follow a locale here: streams alone are tested");
  CHECK(ls::concat({0.5, " ", 1234567}) == "0.5 1234567");
  CHECK(ls::number_text(1234.5) == "1234.5");
  CHECK(ls::number_text(1234.5, ls::NumberForm::fixed, 2) == "1234.50");
  CHECK(ls::detail::python_number(1234567.5) == "1234567.5");
  CHECK(ls::describe("a", {{"b", 0.5}, {"c", std::int64_t{1234567}}}) == "a(b=0.5, c=1234567)");
}

TEST_CASE("printable: control characters are replaced, and long texts cut") {
  CHECK(ls::printable("one\ntwo\x7f\x1b[2J", 100) == "one?two??[2J");
  CHECK(ls::printable("12345", 5) == "12345");
  CHECK(ls::printable("123456", 5) == "12345...");
  CHECK(ls::printable(std::string(1000, 'a')) == std::string(300, 'a') + "...");
  CHECK(ls::in_quotes("a\x07 b") == "'a? b'");
  CHECK(ls::in_quotes("1234", 3) == "'123...'");
}

TEST_CASE("printable: characters of UTF-8 stay whole; what cannot be seen is replaced") {
  CHECK(ls::printable("Gr\xC3\xB6\xC3\x9F"
                      "e \xE2\x82\xAC \xF0\x9F\x98\x80") ==
        "Gr\xC3\xB6\xC3\x9F"
        "e \xE2\x82\xAC \xF0\x9F\x98\x80");
  CHECK(ls::printable("a\xC3\xB6", 2) == "a...");  // not half of it
  CHECK(ls::printable("a\xC3\xB6", 3) == "a\xC3\xB6");
  // A byte of Latin-1, the end cut off, a surrogate, an overlong slash.
  CHECK(ls::printable("\xF6|\xE2\x82|\xED\xA0\x80|\xC0\xAF") == "?|??|???|??");
  // CSI as one character, a mark of direction, a space without width, a byte order mark.
  CHECK(ls::printable("\xC2\x9B|\xE2\x80\xAE|\xE2\x80\x8B|\xEF\xBB\xBF") == "?|?|?|?");
}

TEST_CASE("An error's message is fit for a terminal, whatever it is made of") {
  CHECK(std::string(ls::Error("two\nlines\t\x1b[31m\r\xC2\x9B").what()) == "two\nlines\t?[31m??");
  const std::string foreign(200'000'000, 'x');
  CHECK(std::string(ls::DataError("field " + foreign).what()).size() < 20'000);
}

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

using lockstep::detail::json_number;
using lockstep::detail::json_text;
using lockstep::detail::python_number;

TEST_CASE("json_text: quotes, backslashes and control characters are escaped, and nothing else") {
  CHECK(json_text("") == R"("")");
  CHECK(json_text("a b/é") == R"("a b/é")");
  CHECK(json_text(R"(say "\n")") == R"("say \"\\n\"")");
  CHECK(json_text(std::string_view("\0\n\x1f\x7f", 4)) == "\"\\u0000\\u000a\\u001f\x7f\"");
}

// The expected texts are what Python's repr() prints.
TEST_CASE("python_number: as Python prints it") {
  CHECK(python_number(0) == "0.0");
  CHECK(python_number(-0.0) == "-0.0");
  CHECK(python_number(2) == "2.0");
  CHECK(python_number(0.1) == "0.1");
  CHECK(python_number(1.0 / 3) == "0.3333333333333333");
  CHECK(python_number(1e-4) == "0.0001");
  CHECK(python_number(1e-5) == "1e-05");
  CHECK(python_number(-1.5e-7) == "-1.5e-07");
  CHECK(python_number(123456789012345.0) == "123456789012345.0");
  CHECK(python_number(1e16) == "1e+16");
  CHECK(python_number(5e-324) == "5e-324");
  CHECK(python_number(std::numeric_limits<double>::max()) == "1.7976931348623157e+308");
}

TEST_CASE("json_number: null for what JSON has no number for") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  CHECK(python_number(infinity) == "inf");
  CHECK(python_number(-infinity) == "-inf");
  CHECK(python_number(std::numeric_limits<double>::quiet_NaN()) == "nan");
  CHECK(json_number(infinity) == "null");
  CHECK(json_number(-infinity) == "null");
  CHECK(json_number(std::numeric_limits<double>::quiet_NaN()) == "null");
  CHECK(json_number(2) == "2.0");
  for (const double value : {0.1, -1e-300, 1e22, 4.9e-310}) {
    CAPTURE(value);
    CHECK(std::strtod(json_number(value).c_str(), nullptr) == value);
  }
}

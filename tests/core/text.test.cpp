#include "lockstep/core/text.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "lockstep/core/describe.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/json_text.hpp"
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

#include "lockstep/core/json_text.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

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

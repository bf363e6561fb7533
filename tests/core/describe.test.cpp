#include "lockstep/core/text.hpp"

#include <doctest/doctest.h>

#include <limits>

namespace ls = lockstep;

TEST_CASE("number_text: the shortest text that reads back as the number") {
  CHECK(ls::number_text(0) == "0");
  CHECK(ls::number_text(0.1) == "0.1");
  CHECK(ls::number_text(0.1f) == "0.10000000149011612");
  CHECK(ls::number_text(1e-7) == "1e-07");
  CHECK(ls::number_text(-2.5) == "-2.5");
  CHECK(ls::number_text(std::numeric_limits<double>::infinity()) == "inf");
  CHECK(std::stod(ls::number_text(1.0 / 3)) == 1.0 / 3);
  CHECK(std::stod(ls::number_text(-std::numeric_limits<double>::max())) ==
        -std::numeric_limits<double>::max());
}

TEST_CASE("describe: name and options") {
  CHECK(ls::describe("flatten", {}) == "flatten");
  CHECK(ls::describe(
            "x", {{"flag", true}, {"rate", 0.5}, {"steps", std::int64_t{3}}, {"mode", "max"}}) ==
        "x(flag=true, rate=0.5, steps=3, mode=max)");
}

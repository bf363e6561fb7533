#include "lockstep/core/text.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace ls = lockstep;

TEST_CASE("concat: texts and numbers, the latter as short as they can be read back") {
  CHECK(ls::concat({}).empty());
  CHECK(ls::concat({"got ", 3, " of ", std::string("many"), ": ", 0.1, ", ", 1e-7}) ==
        "got 3 of many: 0.1, 1e-07");
  CHECK(ls::concat({std::numeric_limits<std::int64_t>::min(), " ",
                    std::numeric_limits<std::uint64_t>::max()}) ==
        "-9223372036854775808 18446744073709551615");
}

TEST_CASE("printable: control characters are replaced, and long texts cut") {
  CHECK(ls::printable("one\ntwo\x7f\x1b[2J", 100) == "one?two??[2J");
  CHECK(ls::printable("12345", 5) == "12345");
  CHECK(ls::printable("123456", 5) == "12345...");
}

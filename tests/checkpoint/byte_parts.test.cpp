#include "lockstep/checkpoint/byte_parts.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <iterator>
#include <vector>

#include "checkpoint/checkpoint_testing.hpp"

namespace ls = lockstep;
using lockstep_test::some_bytes;

TEST_CASE("byte parts: none, one or several, where they are") {
  CHECK(ls::ByteParts{}.size() == 0);
  CHECK(ls::ByteParts{}.begin() == ls::ByteParts{}.end());
  const auto first = some_bytes(5), second = some_bytes(0), third = some_bytes(7, 2);
  ls::ByteParts parts(first);
  CHECK(parts.size() == 5);
  parts.add(second);
  parts.add(third);
  CHECK(parts.size() == 12);
  REQUIRE(std::distance(parts.begin(), parts.end()) == 3);
  CHECK(parts.begin()->data() == first.data());
  CHECK((parts.begin() + 2)->data() == third.data());
}

TEST_CASE("byte parts: a copy replaces what was there, in its memory where that is enough") {
  const auto large = some_bytes(std::size_t{5} << 20), small = some_bytes(9, 2);
  std::vector<std::byte> bytes;
  ls::detail::copy_bytes(large, bytes);
  CHECK(bytes == large);
  const std::byte* const memory = bytes.data();
  ls::detail::copy_bytes(small, bytes);
  CHECK(bytes == small);
  ls::detail::copy_bytes(large, bytes);
  CHECK(bytes == large);
  CHECK(bytes.data() == memory);
}

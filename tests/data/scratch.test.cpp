#include "lockstep/data/scratch.hpp"

#include <doctest/doctest.h>

namespace ls = lockstep;

TEST_CASE("scratch: grows, is kept, and is not copied") {
  ls::detail::Scratch scratch;
  int* const first = scratch.get<int>(100);
  first[99] = 7;
  CHECK(scratch.get<int>(50) == first);
  CHECK(scratch.get<int>(100)[99] == 7);
  ls::detail::Scratch copy(scratch);
  CHECK(copy.get<int>(100) != scratch.get<int>(100));
  const auto view = copy.view<float>(5, 3);
  CHECK(view.samples() == 5);
  CHECK(view.stride() == 16);
  CHECK(copy.view<float>(5, 0).empty());
}

#include "lockstep/core/shape.hpp"

#include <doctest/doctest.h>

#include <type_traits>

namespace ls = lockstep;

static_assert(ls::Shape<28, 28, 1>::rank == 3);
static_assert(ls::Shape<28, 28, 1>::size == 784);
static_assert(ls::Shape<28, 28, 1>::extents == std::array<std::size_t, 3>{28, 28, 1});
static_assert(ls::Shape<>::rank == 0 && ls::Shape<>::size == 1);
static_assert(ls::Shape<1U << 20, 1U << 20>::size == std::size_t{1} << 40);

static_assert(ls::StaticShape<ls::Shape<3>> && ls::StaticShape<ls::Shape<>>);
static_assert(!ls::StaticShape<int> && !ls::StaticShape<const ls::Shape<3>&>);

TEST_CASE("Shape: text") {
  CHECK(ls::Shape<28, 28, 1>::to_string() == "(28, 28, 1)");
  CHECK(ls::Shape<10>::to_string() == "(10)");
  CHECK(ls::Shape<>::to_string() == "()");
}

#include "lockstep/layers/reshape.hpp"

#include <doctest/doctest.h>

#include <type_traits>

namespace ls = lockstep;

namespace {

static_assert(std::is_same_v<ls::Reshape<2, 6>::Output<ls::Shape<3, 4>>, ls::Shape<2, 6>>);
static_assert(ls::AliasingLayer<ls::Reshape<12>> && ls::Reshape<12>::name == "reshape");
static_assert(ls::Reshape<2, 6>::check<0, ls::Shape<3, 4>>());

}  // namespace

TEST_CASE("Reshape: another shape of the same size") {
}  // at compile time; see compile_fail/reshape_size.cpp

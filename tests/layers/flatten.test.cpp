#include "lockstep/layers/flatten.hpp"

#include <doctest/doctest.h>

#include <type_traits>

namespace ls = lockstep;

namespace {

static_assert(std::is_same_v<ls::Flatten::Output<ls::Shape<3, 4, 5>>, ls::Shape<60>>);
static_assert(ls::AliasingLayer<ls::Flatten> && ls::Flatten::name == "flatten");

}  // namespace

TEST_CASE("Flatten: all dimensions in one") {}  // at compile time

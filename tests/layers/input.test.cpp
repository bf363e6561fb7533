#include "lockstep/layers/input.hpp"

#include <doctest/doctest.h>

#include <type_traits>

namespace ls = lockstep;

namespace {

static_assert(ls::Layer<ls::Input<28, 28>, ls::Shape<28, 28>> && ls::AliasingLayer<ls::Input<3>>);
static_assert(std::is_same_v<ls::Input<28, 28>::Sample, ls::Shape<28, 28>>);
static_assert(std::is_same_v<ls::Input<28, 28>::Output<ls::Shape<28, 28>>, ls::Shape<28, 28>>);
static_assert(ls::is_input<ls::Input<1>> && !ls::is_input<ls::Shape<1>> && !ls::is_input<int>);

}  // namespace

TEST_CASE("Input says the shape of a sample") {
  CHECK(ls::Input<28, 28, 1>::Sample::to_string() == "(28, 28, 1)");
}

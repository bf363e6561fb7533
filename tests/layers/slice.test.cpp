#include "lockstep/layers/slice.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "support/finite_differences.hpp"

namespace ls = lockstep;

static_assert(std::is_same_v<ls::Slice<1, 2>::Output<ls::Shape<4>>, ls::Shape<2>>);

TEST_CASE("Slice: takes some features, and gives a gradient to them alone") {
  lockstep_test::check_gradients_for_all_batches<ls::Slice<1, 2>, ls::Shape<4>>();
  lockstep_test::LayerRig<ls::Slice<1, 2>, ls::Shape<4>, float> rig(3);
  rig.forward();
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(rig.y[i] == rig.x[rig.stride + i]);
    CHECK(rig.y[rig.stride + i] == rig.x[2 * rig.stride + i]);
  }
}

#include "lockstep/layers/masking.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>

#include "support/finite_differences.hpp"
#include "support/layer_rig.hpp"

namespace ls = lockstep;

TEST_CASE("Masking: tokens of the value alone do not count, and become zero") {
  lockstep_test::LayerRig<ls::Masking<2.0>, ls::Shape<2>, float> rig(3);
  const float x[2][3] = {{2, 2, 1}, {2, 0, 2}};
  for (std::size_t f = 0; f < 2; ++f) std::copy_n(x[f], 3, rig.x.data() + f * rig.stride);
  rig.forward();
  const float y[2][3] = {{0, 2, 1}, {0, 0, 2}}, mask[3] = {0, 1, 1};
  for (std::size_t f = 0; f < 2; ++f)
    CHECK(std::equal(y[f], y[f] + 3, rig.y.data() + f * rig.stride));
  REQUIRE(rig.mask_of_y != nullptr);
  CHECK(std::equal(mask, mask + 3, rig.mask_of_y));
  rig.backward();
  CHECK(rig.dx[0] == 0);
  CHECK(rig.dx[rig.stride] == 0);
  CHECK(rig.dx[2] == rig.dy[2]);
}

TEST_CASE("Masking: gradients against differences") {
  lockstep_test::check_gradients_for_all_batches<ls::Masking<>, ls::Shape<3>>();
}

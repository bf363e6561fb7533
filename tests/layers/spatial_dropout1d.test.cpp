#include "lockstep/layers/spatial_dropout1d.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>

#include "support/finite_differences.hpp"
#include "support/layer_rig.hpp"

namespace ls = lockstep;

TEST_CASE("SpatialDropout1D: a feature is dropped at all positions or at none") {
  lockstep_test::LayerRig<ls::SpatialDropout1D<0.25>, ls::Sequence<5, 8>, float> rig(40);
  rig.forward();
  std::size_t dropped = 0;
  for (std::size_t f = 0; f < 8; ++f)
    for (std::size_t s = 0; s < 40; ++s) {
      const bool drops = rig.y[f * rig.stride + s * 5] == 0;
      dropped += drops;
      for (std::size_t t = 0; t < 5; ++t) {
        const std::size_t i = f * rig.stride + s * 5 + t;
        CHECK(rig.y[i] == (drops ? 0 : doctest::Approx(rig.x[i] / 0.75F)));
      }
    }
  CHECK(dropped > 50);
  CHECK(dropped < 110);
  rig.context.training = false;
  rig.forward();
  CHECK(std::equal(rig.x.begin(), rig.x.end(), rig.y.begin()));
}

TEST_CASE("SpatialDropout1D: gradients against differences") {
  lockstep_test::check_gradients_for_all_batches<ls::SpatialDropout1D<0.5>, ls::Sequence<5, 2>>();
}

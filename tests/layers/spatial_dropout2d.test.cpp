#include "lockstep/layers/spatial_dropout2d.hpp"

#include <doctest/doctest.h>

#include <cstddef>

#include "lockstep/core/random.hpp"
#include "support/finite_differences.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using ls::Shape;
using ls::SpatialDropout2D;

TEST_CASE("SpatialDropout2D: gradients") {
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<SpatialDropout2D<0.5>, Shape<3, 2, 5>>();
  });
}

TEST_CASE(
    "SpatialDropout2D: a channel is kept in all pixels where the sample's random stream says so") {
  lockstep_test::LayerRig<SpatialDropout2D<0.25>, Shape<2, 3, 40>, float> rig(18);
  for (float& x : rig.x) x = 1;
  rig.forward();
  for (std::size_t s = 0; s < 18; ++s) {
    ls::RandomStream random(rig.context.random_key(s));
    for (std::size_t c = 0; c < 40; ++c) {
      const float expected = random() >= 0x40000000 ? 1 / 0.75F : 0;
      for (std::size_t pixel = 0; pixel < 6; ++pixel)
        CHECK(rig.y[(pixel * 40 + c) * rig.stride + s] == expected);
    }
  }
  rig.context.training = false;
  rig.forward();
  CHECK(rig.y[0] == 1);
}

#include "lockstep/layers/repeat_vector.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>

#include "support/layer_rig.hpp"

namespace ls = lockstep;
using ls::RepeatVector;

static_assert(std::is_same_v<RepeatVector<4>::Output<ls::Shape<3>>, ls::Sequence<4, 3>>);

TEST_CASE("RepeatVector: each token is the sample, and the gradient is the sum of theirs") {
  lockstep_test::LayerRig<RepeatVector<4>, ls::Shape<3>, double> rig(5);
  rig.forward();
  rig.backward();
  for (std::size_t f = 0; f < 3; ++f)
    for (std::size_t s = 0; s < 5; ++s) {
      double sum = 0;
      for (std::size_t t = 0; t < 4; ++t) {
        CHECK(rig.y[f * rig.out_stride + s * 4 + t] == rig.x[f * rig.stride + s]);
        sum += rig.dy[f * rig.out_stride + s * 4 + t];
      }
      CHECK(rig.dx[f * rig.stride + s] == doctest::Approx(sum));
    }
}

#include "lockstep/layers/gaussian_dropout.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>

#include "support/finite_differences.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using ls::GaussianDropout;
using ls::Shape;

TEST_CASE("GaussianDropout: gradients") {
  lockstep_test::for_each_instruction_set(
      [] { lockstep_test::check_gradients_for_all_batches<GaussianDropout<0.3>, Shape<3, 5>>(); });
}

TEST_CASE("GaussianDropout: factors of mean 1 and Dropout's deviation; none in inference") {
  lockstep_test::LayerRig<GaussianDropout<0.2>, Shape<4000>, double> rig(1);
  for (double& x : rig.x) x = 1;
  rig.forward();
  double sum = 0, squares = 0;
  for (std::size_t f = 0; f < 4000; ++f) {
    const double factor = rig.y[f * rig.stride];
    sum += factor / 4000;
    squares += (factor - 1) * (factor - 1) / 4000;
  }
  CHECK(std::abs(sum - 1) < 0.04);
  CHECK(std::abs(std::sqrt(squares) - 0.5) < 0.04);
  rig.context.training = false;
  rig.forward();
  CHECK(rig.y[0] == 1);
}

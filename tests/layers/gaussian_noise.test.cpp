#include "lockstep/layers/gaussian_noise.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>

#include "support/finite_differences.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using ls::GaussianNoise;
using ls::Shape;
using Rig = lockstep_test::LayerRig<GaussianNoise<0.5>, Shape<40, 50>, double>;

TEST_CASE("GaussianNoise: gradients") {
  lockstep_test::for_each_instruction_set(
      [] { lockstep_test::check_gradients_for_all_batches<GaussianNoise<0.1>, Shape<3, 5>>(); });
}

TEST_CASE(
    "GaussianNoise: of this deviation, another one for each sample and step, none in inference") {
  Rig rig(2), other(2);
  rig.forward();
  double sum = 0, squares = 0;
  for (std::size_t f = 0; f < 2000; ++f)
    for (std::size_t s = 0; s < 2; ++s) {
      const double noise = rig.y[f * rig.stride + s] - rig.x[f * rig.stride + s];
      sum += noise / 4000;
      squares += noise * noise / 4000;
    }
  CHECK(std::abs(sum) < 0.04);
  CHECK(std::abs(std::sqrt(squares) - 0.5) < 0.04);
  CHECK(rig.y[0] - rig.x[0] != rig.y[1] - rig.x[1]);
  other.forward();
  CHECK(other.y[0] == rig.y[0]);
  other.context.step = 1;
  other.forward();
  CHECK(other.y[0] != rig.y[0]);
  other.context.training = false;
  other.forward();
  CHECK(other.y[0] == other.x[0]);
}

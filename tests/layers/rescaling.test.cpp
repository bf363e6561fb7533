#include "lockstep/layers/rescaling.hpp"

#include <doctest/doctest.h>

#include "support/finite_differences.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using ls::Rescaling;
using ls::Shape;

TEST_CASE("Rescaling: times a number, plus a number") {
  lockstep_test::LayerRig<Rescaling<0.5, -1.0>, Shape<3>, float> rig(2);
  rig.x[0] = 7;
  rig.forward();
  CHECK(rig.y[0] == 2.5F);
}

TEST_CASE("Rescaling: gradients") {
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<Rescaling<1.0 / 127.5, -1.0>, Shape<3, 5>>();
  });
}

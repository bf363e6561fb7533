#include "lockstep/layers/activity_regularization.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "support/instruction_sets.hpp"
#include "support/layer_rig.hpp"

namespace ls = lockstep;
using lockstep_test::LayerRig;

TEST_CASE("ActivityRegularization: the penalty of samples, not of padding; its gradient, scaled") {
  using In = ls::Shape<2, 3>;
  using L = ls::ActivityRegularization<ls::Regularizer{.l1 = 0.5, .l2 = 0.25}>;
  lockstep_test::for_each_instruction_set([] {
    for (const std::size_t samples : {0u, 1u, 16u, 19u}) {
      LayerRig<L, In, double> rig(samples);
      ls::ActivityPenalty penalty{.sum = 1, .scale = 3};
      rig.forward();  // without a place for the penalty
      rig.context.activity_penalty = &penalty;
      rig.forward();
      CHECK(std::equal(rig.x.begin(), rig.x.end(), rig.y.begin()));
      const std::vector<double> dy(rig.dy.begin(), rig.dy.end());
      rig.backward();
      double expected = 1;
      bool gradients_fit = true;
      for (std::size_t i = 0; i < rig.x.size(); ++i) {
        const double x = rig.x[i];
        const bool counts = i % rig.stride < samples;
        if (counts) expected += 0.5 * std::abs(x) + 0.25 * x * x;
        const double gradient = counts ? dy[i] + 3 * (0.5 * (x > 0 ? 1 : -1) + 0.5 * x) : 0;
        gradients_fit = gradients_fit && std::abs(rig.dx[i] - gradient) < 1e-14;
      }
      CHECK(penalty.sum == doctest::Approx(expected));
      CHECK(gradients_fit);
    }
  });
}

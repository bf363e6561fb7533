#include "lockstep/layers/rms_normalization.hpp"

#include <doctest/doctest.h>

#include "golden/image_layers.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_layer.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using ls::RMSNormalization;
using ls::Shape;

TEST_CASE("RMSNormalization: variables") {
  const auto& all = RMSNormalization<>::variables<Shape<4, 5, 3>>;
  REQUIRE(all.size() == 1);
  CHECK(all[0].name == "scale");
  CHECK(all[0].size() == 3);
  CHECK((all[0].initializer == ls::ones));
}

TEST_CASE("RMSNormalization: Keras's values and gradients") {
  namespace rms = lockstep_test::golden::rms_normalization;
  lockstep_test::check_golden<RMSNormalization<>, Shape<3, 4>>(
      {rms::x, rms::y, rms::dy, rms::dx, {{rms::scale, rms::scale_gradient}}});
}

TEST_CASE("RMSNormalization: gradients") {
  lockstep_test::for_each_instruction_set([] {
    using Flat = RMSNormalization<ls::RMSNormalizationOptions{.epsilon = 0.1}>;
    lockstep_test::check_gradients_for_all_batches<RMSNormalization<>, Shape<3, 4, 5>>();
    lockstep_test::check_gradients<Flat, Shape<7>>(80);
  });
}

#include "lockstep/losses/categorical_crossentropy.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "golden/losses.hpp"
#include "lockstep/core/error.hpp"
#include "losses/loss_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using lockstep_test::Tensor;
using ls::CategoricalCrossentropy;

static_assert(CategoricalCrossentropy::target_size<ls::Shape<10>> == 10);

TEST_CASE("CategoricalCrossentropy: golden values") {
  lockstep_test::check_golden(CategoricalCrossentropy{.from_logits = true}, golden::samples,
                              golden::logits, golden::targets, golden::categorical_logits_value,
                              golden::categorical_logits_gradient);
  lockstep_test::check_golden(CategoricalCrossentropy{.from_logits = true, .label_smoothing = 0.1},
                              golden::samples, golden::logits, golden::targets,
                              golden::categorical_smoothed_value,
                              golden::categorical_smoothed_gradient);
  lockstep_test::check_golden(CategoricalCrossentropy{.label_smoothing = 0.1}, golden::samples,
                              golden::probabilities, golden::targets,
                              golden::categorical_probabilities_value,
                              golden::categorical_probabilities_gradient);
}

TEST_CASE("CategoricalCrossentropy: finite differences, also for targets that do not sum to 1") {
  const Tensor<double> targets = Tensor<double>::random(18, 4, 1, 0, 2);
  lockstep_test::check_loss(CategoricalCrossentropy{.from_logits = true},
                            Tensor<double>::random(18, 4, 2, -4, 4), targets);
  lockstep_test::check_loss(CategoricalCrossentropy{.label_smoothing = 0.3},
                            Tensor<double>::random(18, 4, 3, 0.1, 0.9), targets);
}

TEST_CASE("CategoricalCrossentropy: options") {
  CHECK(CategoricalCrossentropy{.label_smoothing = 0.5}.description() ==
        "categorical_crossentropy(from_logits=false, label_smoothing=0.5)");
  CategoricalCrossentropy{.label_smoothing = 1}.validate();
  CHECK_THROWS_WITH_AS(
      CategoricalCrossentropy{.label_smoothing = -0.5}.validate(),
      "categorical_crossentropy: label_smoothing is -0.5; expected a number in [0, 1]",
      ls::ConfigurationError);
  CHECK_THROWS_AS(
      CategoricalCrossentropy{.label_smoothing = std::numeric_limits<double>::quiet_NaN()}
          .validate(),
      ls::ConfigurationError);
}

#include "lockstep/losses/elementwise_loss.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <vector>

#include "golden/keras_losses.hpp"
#include "golden/losses.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/losses/hinges.hpp"
#include "lockstep/losses/regression.hpp"
#include "losses/loss_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden::keras;
using lockstep::MeanSquaredError;
using lockstep_test::Tensor;

static_assert(MeanSquaredError::target_size<lockstep::Shape<4, 3>> == 12);

TEST_CASE("MeanSquaredError: golden values") {
  lockstep_test::check_golden(MeanSquaredError{}, lockstep_test::golden::samples,
                              lockstep_test::golden::probabilities, lockstep_test::golden::targets,
                              lockstep_test::golden::mean_squared_error_value,
                              lockstep_test::golden::mean_squared_error_gradient);
}

TEST_CASE("MeanSquaredError: finite differences") {
  lockstep_test::check_loss(MeanSquaredError{}, Tensor<double>::random(19, 3, 1, -2, 2),
                            Tensor<double>::random(19, 3, 2, -2, 2));
}

TEST_CASE("MeanSquaredError: the sum is in double") {
  // In float, 1e8 + 1 is 1e8.
  const Tensor<float> predictions(2, 1, std::vector<float>{1e4f, 1.0f});
  const Tensor<float> targets(2, 1, std::vector<float>{0.0f, 0.0f});
  CHECK(lockstep_test::sum_of_losses(MeanSquaredError{}, predictions.cview(), targets.cview()) ==
        1e8 + 1);
}

namespace {

constexpr double in_float = 1e-7;  // Keras rounds its constants, such as 1e-7, to float

template <class Loss, std::size_t N>
void check(const Loss& loss, const double (&predictions)[N], const double (&targets)[N],
           double value, const double (&gradient)[N]) {
  lockstep_test::check_golden(loss, golden::rows, predictions, targets, value, gradient, in_float);
}

template <class Loss>
void check_differences(const Loss& loss, double low = -2, double high = 2, double target_low = -2,
                       double target_high = 2) {
  lockstep_test::check_loss(loss, Tensor<double>::random(18, 3, 1, low, high),
                            Tensor<double>::random(18, 3, 2, target_low, target_high));
}

double loss_of(const auto& loss, double prediction, double target) {
  const Tensor<double> p(1, 1, std::vector<double>{prediction}),
      y(1, 1, std::vector<double>{target});
  return lockstep_test::sum_of_losses(loss, p.cview(), y.cview());
}

}  // namespace

TEST_CASE("elementwise losses: Keras's values and gradients") {
  check(ls::MeanAbsoluteError{}, golden::real, golden::wanted, golden::mean_absolute_error_value,
        golden::mean_absolute_error_gradient);
  check(ls::MeanAbsolutePercentageError{}, golden::real, golden::wanted,
        golden::mean_absolute_percentage_error_value,
        golden::mean_absolute_percentage_error_gradient);
  check(ls::MeanSquaredLogarithmicError{}, golden::positive, golden::counts,
        golden::mean_squared_logarithmic_error_value,
        golden::mean_squared_logarithmic_error_gradient);
  check(ls::Huber{}, golden::real, golden::wanted, golden::huber_value, golden::huber_gradient);
  check(ls::Huber{.delta = 2.5}, golden::real, golden::wanted, golden::huber_wide_value,
        golden::huber_wide_gradient);
  check(ls::Hinge{}, golden::real, golden::signs, golden::hinge_value, golden::hinge_gradient);
  check(ls::Hinge{}, golden::real, golden::answers, golden::hinge_of_answers_value,
        golden::hinge_of_answers_gradient);
  check(ls::SquaredHinge{}, golden::real, golden::signs, golden::squared_hinge_value,
        golden::squared_hinge_gradient);
  check(ls::Poisson{}, golden::positive, golden::counts, golden::poisson_value,
        golden::poisson_gradient);
  std::vector<double> wide;
  for (const double value : golden::real) wide.push_back(9 * value);
  lockstep_test::check_golden(ls::LogCosh{}, golden::rows, wide, golden::wanted,
                              golden::log_cosh_value, golden::log_cosh_gradient, in_float);
}

TEST_CASE("losses over the classes of a row: Keras's values and gradients") {
  check(ls::CategoricalHinge{}, golden::real, golden::one_hot, golden::categorical_hinge_value,
        golden::categorical_hinge_gradient);
  check(ls::KLDivergence{}, golden::chances, golden::distribution, golden::kl_divergence_value,
        golden::kl_divergence_gradient);
  check(ls::CosineSimilarity{}, golden::real, golden::wanted, golden::cosine_similarity_value,
        golden::cosine_similarity_gradient);
}

TEST_CASE("focal losses: Keras's values and gradients") {
  check(ls::BinaryFocalCrossentropy{}, golden::yes_no, golden::answers, golden::binary_focal_value,
        golden::binary_focal_gradient);
  check(ls::BinaryFocalCrossentropy{.apply_class_balancing = true,
                                    .alpha = 0.3,
                                    .gamma = 1.5,
                                    .from_logits = true,
                                    .label_smoothing = 0.1},
        golden::real, golden::answers, golden::binary_focal_balanced_value,
        golden::binary_focal_balanced_gradient);
  check(ls::CategoricalFocalCrossentropy{}, golden::yes_no, golden::one_hot,
        golden::categorical_focal_value, golden::categorical_focal_gradient);
  check(
      ls::CategoricalFocalCrossentropy{
          .alpha = 0.4, .gamma = 1.5, .from_logits = true, .label_smoothing = 0.1},
      golden::real, golden::one_hot, golden::categorical_focal_smoothed_value,
      golden::categorical_focal_smoothed_gradient);
}

TEST_CASE("elementwise losses: finite differences") {
  check_differences(ls::MeanAbsoluteError{});
  check_differences(ls::MeanAbsolutePercentageError{}, -2, 2, 0.5, 2);
  check_differences(ls::MeanSquaredLogarithmicError{}, 0.1, 3, 0, 3);
  check_differences(ls::Huber{.delta = 0.7});
  check_differences(ls::LogCosh{}, -30, 30);
  check_differences(ls::Hinge{}, -2, 2, 1, 1);
  check_differences(ls::SquaredHinge{}, -2, 2, -1, -1);
  check_differences(ls::Poisson{}, 0.2, 3, 0, 4);
  check_differences(ls::CategoricalHinge{}, -2, 2, 0, 1);
  check_differences(ls::KLDivergence{}, 0.1, 0.9, 0.1, 0.9);
  check_differences(ls::CosineSimilarity{});
  for (const double gamma : {0.0, 0.5, 2.0}) {
    check_differences(ls::BinaryFocalCrossentropy{.gamma = gamma, .label_smoothing = 0.2}, 0.1, 0.9,
                      0, 1);
    check_differences(
        ls::BinaryFocalCrossentropy{
            .apply_class_balancing = true, .gamma = gamma, .from_logits = true},
        -3, 3, 0, 1);
    check_differences(ls::CategoricalFocalCrossentropy{.gamma = gamma, .label_smoothing = 0.2}, 0.1,
                      0.9, 0, 1);
    check_differences(ls::CategoricalFocalCrossentropy{.gamma = gamma, .from_logits = true}, -3, 3,
                      0, 1);
  }
}

TEST_CASE("elementwise losses: borders") {
  CHECK(loss_of(ls::MeanAbsolutePercentageError{}, 0.5, 0) == doctest::Approx(5e8));
  CHECK(loss_of(ls::MeanSquaredLogarithmicError{}, -3, -1) == 0);
  CHECK(loss_of(ls::LogCosh{}, 1000, 0) == doctest::Approx(1000 - std::log(2)));
  CHECK(loss_of(ls::Hinge{}, 0.25, 0) == 1.25);
  CHECK(loss_of(ls::Poisson{}, 0, 0) == 0);
  CHECK(loss_of(ls::CosineSimilarity{}, 0, 1) == 0);
  CHECK(loss_of(ls::CosineSimilarity{}, 2, 3) == doctest::Approx(-1));
  CHECK(loss_of(ls::BinaryFocalCrossentropy{.from_logits = true}, 1000, 1) == doctest::Approx(0));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(loss_of(ls::MeanAbsoluteError{}, nan, 1)));
  CHECK(std::isnan(loss_of(ls::Huber{}, nan, 1)));
  CHECK(std::isnan(loss_of(ls::Hinge{}, nan, 1)));
  CHECK(std::isnan(loss_of(ls::SquaredHinge{}, nan, 1)));
  CHECK(std::isnan(loss_of(ls::CategoricalHinge{}, nan, 1)));
}

TEST_CASE("losses: descriptions hold the options, and those that make no sense are refused") {
  CHECK(ls::Huber{.delta = 2}.description() == "huber_loss(delta=2)");
  CHECK(ls::Poisson{}.description() == "poisson");
  CHECK(ls::BinaryFocalCrossentropy{}.description() ==
        "binary_focal_crossentropy(apply_class_balancing=false, alpha=0.25, gamma=2, "
        "from_logits=false, "
        "label_smoothing=0)");
  CHECK_THROWS_WITH_AS(ls::Huber{.delta = 0}.validate(),
                       "huber_loss: delta is 0; expected a number above 0", ls::ConfigurationError);
  CHECK_THROWS_AS(ls::BinaryFocalCrossentropy{.alpha = 2}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(ls::CategoricalFocalCrossentropy{.gamma = -1}.validate(), ls::ConfigurationError);
}

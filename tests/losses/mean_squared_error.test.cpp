#include "lockstep/losses/mean_squared_error.hpp"

#include <doctest/doctest.h>

#include "golden/losses.hpp"
#include "losses/loss_testing.hpp"

namespace golden = lockstep_test::golden;
using lockstep::MeanSquaredError;
using lockstep_test::Tensor;

static_assert(MeanSquaredError::target_size<lockstep::Shape<4, 3>> == 12);

TEST_CASE("MeanSquaredError: golden values") {
  lockstep_test::check_golden(MeanSquaredError{}, golden::samples, golden::probabilities,
                              golden::targets, golden::mean_squared_error_value,
                              golden::mean_squared_error_gradient);
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

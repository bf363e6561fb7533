// What every loss must do, checked for one loss.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>

#include "support/instruction_sets.hpp"
#include "support/loss_sums.hpp"
#include "support/tensor.hpp"

namespace lockstep_test {

/// The gradient equals central differences, the loss is the same without a gradient, the gradient's
/// padding is zero, and rows do not depend on their neighbours. Predictions that lie on a kink are
/// the caller's to avoid.
template <class Loss>
void check_loss(const Loss& loss, const Tensor<double>& predictions,
                const Tensor<double>& targets) {
  const Tensor<double> gradient(predictions.samples(), predictions.features());
  const double value = sum_of_losses(loss, predictions.cview(), targets.cview(), gradient.view());
  CHECK(value == sum_of_losses(loss, predictions.cview(), targets.cview()));
  CHECK(gradient.padding_is(0));
  const double step = 1e-6;
  for (std::size_t i = 0; i < predictions.samples(); ++i)
    for (std::size_t f = 0; f < predictions.features(); ++f) {
      CAPTURE(i);
      CAPTURE(f);
      const double at = predictions(i, f);
      predictions(i, f) = at + step;
      const double above = sum_of_losses(loss, predictions.cview(), targets.cview());
      predictions(i, f) = at - step;
      const double below = sum_of_losses(loss, predictions.cview(), targets.cview());
      predictions(i, f) = at;
      CHECK(gradient(i, f) == doctest::Approx((above - below) / (2 * step)).epsilon(1e-6));
    }

  double sum = 0;
  for (std::size_t i = 0; i < predictions.samples(); ++i) {
    const Tensor<double> row(1, predictions.features()), target(1, targets.features());
    for (std::size_t f = 0; f < row.features(); ++f) row(0, f) = predictions(i, f);
    for (std::size_t f = 0; f < target.features(); ++f) target(0, f) = targets(i, f);
    const Tensor<double> row_gradient(1, predictions.features());
    sum += sum_of_losses(loss, row.cview(), target.cview(), row_gradient.view());
    for (std::size_t f = 0; f < row.features(); ++f) CHECK(row_gradient(0, f) == gradient(i, f));
  }
  CHECK(sum == doctest::Approx(value).epsilon(1e-13));

  const Tensor<double> none(0, predictions.features()), no_target(0, targets.features());
  CHECK(sum_of_losses(loss, none.cview(), no_target.cview(), none.view()) == 0.0);
}

/// Value and gradient are the golden ones, in double and in float, under every instruction set.
/// `exactness`: of the golden values.
template <class Loss, class Predictions, class Targets, class Gradient>
void check_golden(const Loss& loss, std::size_t samples, const Predictions& predictions,
                  const Targets& targets, double value, const Gradient& expected,
                  double exactness = 1e-12) {
  const auto check = [&]<class T>(T, double tolerance) {
    const std::size_t features = std::size(expected) / samples;
    const Tensor<T> p(samples, features, predictions),
        t(samples, std::size(targets) / samples, targets);
    const Tensor<T> gradient(samples, features);
    CHECK(sum_of_losses(loss, p.cview(), t.cview(), gradient.view()) ==
          doctest::Approx(value).epsilon(tolerance));
    for (std::size_t i = 0; i < samples; ++i)
      for (std::size_t f = 0; f < features; ++f) {
        CAPTURE(i);
        CAPTURE(f);
        const double wanted = expected[i * features + f];
        CHECK(std::abs(static_cast<double>(gradient(i, f)) - wanted) <=
              tolerance * (1 + std::abs(wanted)));
      }
  };
  for_each_instruction_set([&] {
    check(double{}, exactness);
    check(float{}, 2e-5);  // a logit of 500 has an error of 1.5e-5 itself
  });
}

}  // namespace lockstep_test

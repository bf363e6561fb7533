// The sum of a loss over rows, for tests that need no single one.
#pragma once

#include <numeric>
#include <vector>

#include "lockstep/core/tensor_view.hpp"

namespace lockstep_test {

/// With the gradient, unless that is empty. `loss` is a Loss.
template <class Loss, class T>
double sum_of_losses(const Loss& loss, lockstep::TensorView<const T> predictions,
                     lockstep::TensorView<const T> targets, lockstep::TensorView<T> gradient = {}) {
  std::vector<double> losses(predictions.samples());
  loss.compute(predictions, targets, losses, gradient);
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

}  // namespace lockstep_test

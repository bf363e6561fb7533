#pragma once

#include <algorithm>
#include <cmath>

#include "lockstep/losses/elementwise_loss.hpp"
#include "lockstep/losses/mean_squared_logarithmic_error.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

template <class T>
void MeanSquaredLogarithmicError::compute(TensorView<const T> predictions,
                                          TensorView<const T> targets, std::span<double> losses,
                                          TensorView<T> gradient) const {
  const auto formula = [](double p, double y) {
    constexpr double lowest = 1e-7;
    const double error = std::log1p(std::max(p, lowest)) - std::log1p(std::max(y, lowest));
    return detail::LossTerm{error * error, p < lowest ? 0.0 : 2 * error / (1 + p)};
  };
  detail::mean_over_outputs(predictions, targets, losses, gradient, formula);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

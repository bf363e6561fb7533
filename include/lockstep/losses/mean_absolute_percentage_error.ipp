#pragma once

#include <algorithm>
#include <cmath>

#include "lockstep/losses/elementwise_loss.hpp"
#include "lockstep/losses/mean_absolute_percentage_error.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

template <class T>
void MeanAbsolutePercentageError::compute(TensorView<const T> predictions,
                                          TensorView<const T> targets, std::span<double> losses,
                                          TensorView<T> gradient) const {
  const auto formula = [](double p, double y) {
    const double error = p - y;
    const double scale = 100 / std::max(std::abs(y), 1e-7);
    return detail::LossTerm{scale * std::abs(error), error > 0 ? scale : error < 0 ? -scale : 0.0};
  };
  detail::mean_over_outputs(predictions, targets, losses, gradient, formula);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#pragma once

#include <cmath>

#include "lockstep/losses/elementwise_loss.hpp"
#include "lockstep/losses/mean_absolute_error.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

template <class T>
void MeanAbsoluteError::compute(TensorView<const T> predictions, TensorView<const T> targets,
                                std::span<double> losses, TensorView<T> gradient) const {
  const auto formula = [](double p, double y) {
    const double error = p - y;
    return detail::LossTerm{std::abs(error), error > 0 ? 1.0 : error < 0 ? -1.0 : 0.0};
  };
  detail::mean_over_outputs(predictions, targets, losses, gradient, formula);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#pragma once

#include <cmath>

#include "lockstep/losses/elementwise_loss.hpp"
#include "lockstep/losses/log_cosh.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

template <class T>
void LogCosh::compute(TensorView<const T> predictions, TensorView<const T> targets,
                      std::span<double> losses, TensorView<T> gradient) const {
  const auto formula = [](double p, double y) {
    const double error = p - y, size = std::abs(error);
    return detail::LossTerm{size + std::log1p(std::exp(-2 * size)) - std::numbers::ln2,
                            std::tanh(error)};
  };
  detail::mean_over_outputs(predictions, targets, losses, gradient, formula);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#pragma once

#include <algorithm>
#include <cmath>

#include "lockstep/losses/elementwise_loss.hpp"
#include "lockstep/losses/kl_divergence.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

template <class T>
void KLDivergence::compute(TensorView<const T> predictions, TensorView<const T> targets,
                           std::span<double> losses, TensorView<T> gradient) const {
  const auto formula = [](double p, double y) {
    constexpr double lowest = 1e-7;
    const double target = std::clamp(y, lowest, 1.0);
    const double slope = p >= lowest && p <= 1 ? -target / p : 0.0;
    return detail::LossTerm{target * std::log(target / std::clamp(p, lowest, 1.0)), slope};
  };
  detail::sum_over_outputs(predictions, targets, losses, gradient, 1.0, formula);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

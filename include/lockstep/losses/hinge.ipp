#pragma once

#include <cmath>

#include "lockstep/losses/elementwise_loss.hpp"
#include "lockstep/losses/hinge.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

template <class T>
void Hinge::compute(TensorView<const T> predictions, TensorView<const T> targets,
                    std::span<double> losses, TensorView<T> gradient) const {
  const auto formula = [](double p, double y) {
    const double sign = y == 0 ? -1 : y, gap = 1 - sign * p;
    return gap > 0 ? detail::LossTerm{gap, -sign} : detail::LossTerm{std::isnan(gap) ? gap : 0, 0};
  };
  detail::mean_over_outputs(predictions, targets, losses, gradient, formula);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#pragma once

#include <cmath>

#include "lockstep/losses/elementwise_loss.hpp"
#include "lockstep/losses/poisson.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

template <class T>
void Poisson::compute(TensorView<const T> predictions, TensorView<const T> targets,
                      std::span<double> losses, TensorView<T> gradient) const {
  const auto formula = [](double p, double y) {
    constexpr double least = 1e-7;
    return detail::LossTerm{p - y * std::log(p + least), 1 - y / (p + least)};
  };
  detail::mean_over_outputs(predictions, targets, losses, gradient, formula);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

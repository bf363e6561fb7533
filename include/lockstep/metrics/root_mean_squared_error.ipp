#pragma once

#include <cmath>

#include "lockstep/metrics/root_mean_squared_error.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

template <class T>
void RootMeanSquaredError::update(TensorView<const T> predictions, TensorView<const T> targets,
                                  std::span<const T> weights, std::span<double> state) const {
  MeanLoss<MeanSquaredError>{}.update(predictions, targets, weights, state);
}

LOCKSTEP_INLINE double RootMeanSquaredError::result(std::span<const double> state) const {
  return state[1] > 0 ? std::sqrt(state[0] / state[1]) : 0.0;
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#pragma once

#include <algorithm>

#include "lockstep/losses/mean_squared_error.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

template <class T>
void MeanSquaredError::compute(TensorView<const T> predictions, TensorView<const T> targets,
                               std::span<double> losses, TensorView<T> gradient) const {
  const std::size_t rows = predictions.samples();
  const double outputs = static_cast<double>(predictions.features());
  const T scale = T(2) / static_cast<T>(predictions.features());
  std::fill_n(losses.begin(), rows, 0.0);
  for (std::size_t f = 0; f < predictions.features(); ++f) {
    const T* p = predictions.feature(f);
    const T* t = targets.feature(f);
    for (std::size_t i = 0; i < rows; ++i) {
      const double error = static_cast<double>(p[i] - t[i]);
      losses[i] += error * error / outputs;
    }
    if (gradient.empty()) continue;
    T* g = gradient.feature(f);
    for (std::size_t i = 0; i < rows; ++i) g[i] = scale * (p[i] - t[i]);
  }
  if (!gradient.empty()) gradient.clear_padding();
}

}  // namespace lockstep::inline LOCKSTEP_ABI

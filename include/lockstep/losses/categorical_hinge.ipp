#pragma once

#include <cmath>

#include "lockstep/losses/categorical_hinge.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

template <class T>
void CategoricalHinge::compute(TensorView<const T> predictions, TensorView<const T> targets,
                               std::span<double> losses, TensorView<T> gradient) const {
  for (std::size_t row = 0; row < predictions.samples(); ++row) {
    double right = 0, largest = 0;
    std::size_t rival = 0;
    for (std::size_t c = 0; c < predictions.features(); ++c) {
      const auto p = static_cast<double>(predictions(row, c)),
                 y = static_cast<double>(targets(row, c));
      right += y * p;
      if (c > 0 && !((1 - y) * p > largest)) continue;
      largest = (1 - y) * p;
      rival = c;
    }
    const double gap = largest - right + 1;
    losses[row] = gap > 0 || std::isnan(gap) ? gap : 0;
    if (gradient.empty()) continue;
    for (std::size_t c = 0; c < predictions.features(); ++c) {
      const auto y = static_cast<double>(targets(row, c));
      gradient(row, c) = gap > 0 ? static_cast<T>((c == rival ? 1 - y : 0) - y) : T(0);
    }
  }
  if (!gradient.empty()) gradient.clear_padding();
}

}  // namespace lockstep::inline LOCKSTEP_ABI

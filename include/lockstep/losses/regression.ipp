#pragma once

#include <algorithm>
#include <cmath>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/losses/elementwise_loss.hpp"
#include "lockstep/losses/regression.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

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

LOCKSTEP_INSTANCE(detail::LossCompute<LOCKSTEP_REAL> MeanSquaredError::compute);

LOCKSTEP_INLINE void Huber::validate() const {
  if (!(delta > 0))
    throw ConfigurationError("huber_loss: delta is " + number_text(delta) +
                             "; expected a number above 0");
}

template <class T>
void Huber::compute(TensorView<const T> predictions, TensorView<const T> targets,
                    std::span<double> losses, TensorView<T> gradient) const {
  const auto formula = [d = delta](double p, double y) {
    const double error = p - y, size = std::abs(error);
    return size <= d ? detail::LossTerm{error * error / 2, error}
                     : detail::LossTerm{d * size - d * d / 2, error > 0 ? d : -d};
  };
  detail::mean_over_outputs(predictions, targets, losses, gradient, formula);
}

LOCKSTEP_INSTANCE(detail::LossCompute<LOCKSTEP_REAL> Huber::compute);
}}  // namespace lockstep

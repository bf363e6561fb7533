// Mean squared error.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Mean over the outputs of a sample of (prediction - target)^2, for targets of the output's shape.
/// The gradient is 2 (prediction - target) / outputs.
struct MeanSquaredError {
  static constexpr std::string_view name = "mean_squared_error";
  template <class Out>
  static constexpr std::size_t target_size = Out::size;

  [[nodiscard]] std::string description() const { return std::string(name); }

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
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
};

}  // namespace lockstep::inline LOCKSTEP_ABI

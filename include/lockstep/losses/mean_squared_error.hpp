// Mean squared error.
#pragma once

#include <cstddef>
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

  template <class T>
  [[nodiscard]] double value(TensorView<const T> predictions, TensorView<const T> targets) const {
    double sum = 0;
    for (std::size_t f = 0; f < predictions.features(); ++f) {
      const T* p = predictions.feature(f);
      const T* t = targets.feature(f);
      for (std::size_t i = 0; i < predictions.samples(); ++i) {
        const double error = static_cast<double>(p[i] - t[i]);
        sum += error * error;
      }
    }
    return sum / static_cast<double>(predictions.features());
  }

  template <class T>
  double value_and_gradient(TensorView<const T> predictions, TensorView<const T> targets,
                            TensorView<T> gradient) const {
    const double sum = value(predictions, targets);  // first: gradient may be predictions, overwritten
    const T scale = T(2) / static_cast<T>(predictions.features());
    for (std::size_t f = 0; f < predictions.features(); ++f) {
      const T* p = predictions.feature(f);
      const T* t = targets.feature(f);
      T* g = gradient.feature(f);
      for (std::size_t i = 0; i < predictions.samples(); ++i) g[i] = scale * (p[i] - t[i]);
    }
    gradient.clear_padding();
    return sum;
  }
};
static_assert(Loss<MeanSquaredError, Shape<10>, float>);
static_assert(Loss<MeanSquaredError, Shape<4, 4, 2>, double>);

}  // namespace lockstep::inline LOCKSTEP_ABI

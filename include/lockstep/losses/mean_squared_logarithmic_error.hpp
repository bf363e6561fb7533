// Mean squared logarithmic error.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Mean over the outputs of a row of (log(p + 1) - log(y + 1))^2 for a prediction p and a target y,
/// of which Keras takes max(p, 1e-7) and max(y, 1e-7): for numbers that are not negative. The
/// gradient is 0 where the prediction is below 1e-7.
struct MeanSquaredLogarithmicError {
  static constexpr std::string_view name = "mean_squared_logarithmic_error";
  template <class Out>
  static constexpr std::size_t target_size = Out::size;

  [[nodiscard]] std::string description() const { return std::string(name); }

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/losses/mean_squared_logarithmic_error.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_LOSS_INSTANCES(MeanSquaredLogarithmicError);
}  // namespace lockstep::inline LOCKSTEP_ABI

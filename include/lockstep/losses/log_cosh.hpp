// Logarithm of the hyperbolic cosine of the error.
#pragma once

#include <cstddef>
#include <numbers>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Mean over the outputs of a row of log(cosh(prediction - target)): e^2 / 2 for a small error e,
/// and |e| - log 2 for a large one. Computed as |e| + log(1 + exp(-2 |e|)) - log 2, which does not
/// overflow.
struct LogCosh {
  static constexpr std::string_view name = "log_cosh";
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
#include "lockstep/losses/log_cosh.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_LOSS_INSTANCES(LogCosh);
}  // namespace lockstep::inline LOCKSTEP_ABI

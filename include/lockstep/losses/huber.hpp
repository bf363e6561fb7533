// Huber's loss.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/describe.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Mean over the outputs of a row of e^2 / 2 where |e| <= delta, and of delta |e| - delta^2 / 2
/// beyond, with e = prediction - target: squares for small errors, and no weight for outliers. (P.
/// Huber, Robust Estimation of a Location Parameter, 1964.)
struct Huber {
  double delta = 1;  ///< above 0

  static constexpr std::string_view name = "huber_loss";
  template <class Out>
  static constexpr std::size_t target_size = Out::size;

  [[nodiscard]] std::string description() const { return describe(name, {{"delta", delta}}); }

  /// Throws ConfigurationError.
  void validate() const;

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/losses/huber.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_LOSS_INSTANCES(Huber);
}  // namespace lockstep::inline LOCKSTEP_ABI

// Logarithm of the hyperbolic cosine of the error.
#pragma once

#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/losses/elementwise_loss.hpp"

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
               std::span<double> losses, TensorView<T> gradient) const {
    const auto formula = [](double p, double y) {
      const double error = p - y, size = std::abs(error);
      return detail::LossTerm{size + std::log1p(std::exp(-2 * size)) - std::numbers::ln2,
                              std::tanh(error)};
    };
    detail::mean_over_outputs(predictions, targets, losses, gradient, formula);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI

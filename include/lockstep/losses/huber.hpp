// Huber's loss.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/describe.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/losses/elementwise_loss.hpp"

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
  void validate() const {
    if (!(delta > 0))
      throw ConfigurationError("huber_loss: delta is " + number_text(delta) +
                               "; expected a number above 0");
  }

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const {
    const auto formula = [d = delta](double p, double y) {
      const double error = p - y, size = std::abs(error);
      return size <= d ? detail::LossTerm{error * error / 2, error}
                       : detail::LossTerm{d * size - d * d / 2, error > 0 ? d : -d};
    };
    detail::mean_over_outputs(predictions, targets, losses, gradient, formula);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI

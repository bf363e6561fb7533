// Kullback-Leibler divergence.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/losses/elementwise_loss.hpp"
#include "lockstep/losses/labels.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Sum over the classes of y log(y / p), for distributions y (targets) and p (predictions, a flat
/// output). In nats. Both are clipped to [1e-7, 1], as in Keras; the gradient through a clipped p
/// is 0.
struct KLDivergence {
  static constexpr std::string_view name = "kl_divergence";
  template <class Out>
  static constexpr std::size_t target_size = Out::size * detail::one_label<Out>();

  [[nodiscard]] std::string description() const { return std::string(name); }

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const {
    const auto formula = [](double p, double y) {
      constexpr double lowest = 1e-7;
      const double target = std::clamp(y, lowest, 1.0);
      const double slope = p >= lowest && p <= 1 ? -target / p : 0.0;
      return detail::LossTerm{target * std::log(target / std::clamp(p, lowest, 1.0)), slope};
    };
    detail::sum_over_outputs(predictions, targets, losses, gradient, 1.0, formula);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI

// Hinge losses.
#pragma once

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

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Mean over the outputs of a row of max(1 - y p, 0), for predictions p and targets y of -1 and 1.
/// A target of 0 means -1, so that 0 and 1 may be given. (Keras does so only in batches that hold
/// nothing but 0 and 1; here a row does not depend on the others.)
/// Use: `Hinge{}`.
struct Hinge : detail::MeanOverOutputs<Hinge> {
  static constexpr std::string_view name = "hinge";

  static detail::LossTerm term(double p, double y) {
    const double sign = y == 0 ? -1 : y, gap = 1 - sign * p;
    return gap > 0 ? detail::LossTerm{gap, -sign} : detail::LossTerm{std::isnan(gap) ? gap : 0, 0};
  }
};

/// Mean over the outputs of a row of max(1 - y p, 0)^2, for predictions p and targets y of -1 and
/// 1. A target of 0 means -1, so that 0 and 1 may be given. (Keras does so only in batches that
/// hold nothing but 0 and 1; here a row does not depend on the others.)
/// Use: `SquaredHinge{}`.
struct SquaredHinge : detail::MeanOverOutputs<SquaredHinge> {
  static constexpr std::string_view name = "squared_hinge";

  static detail::LossTerm term(double p, double y) {
    const double sign = y == 0 ? -1 : y, gap = 1 - sign * p;
    return gap > 0 ? detail::LossTerm{gap * gap, -2 * sign * gap}
                   : detail::LossTerm{std::isnan(gap) ? gap : 0, 0};
  }
};

/// max(largest - right + 1, 0) for targets y that are one-hot vectors and a flat output of scores
/// p: right is sum_i y_i p_i, the score of the class, and largest is max_i (1 - y_i) p_i, the
/// highest of the others (or 0, if that is more), as in Keras. Of equal scores the first has the
/// gradient.
/// Use: `CategoricalHinge{}`.
struct CategoricalHinge {
  static constexpr std::string_view name = "categorical_hinge";
  template <class Out>
  static constexpr std::size_t target_size = Out::size * detail::one_label<Out>();

  [[nodiscard]] std::string description() const { return std::string(name); }

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const;
};

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

}}  // namespace lockstep

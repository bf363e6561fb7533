// The frame of losses that are sums over the outputs of a row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// What one output adds to the loss of its row, and the derivative by the prediction.
struct LossTerm {
  double value;
  double slope;
};

/// The compute of a Loss: the loss of a row is `scale` times the sum over its outputs of
/// formula(prediction, target), a LossTerm. In double. `gradient` may be `predictions`,
/// overwritten.
template <class T, class Formula>
void sum_over_outputs(TensorView<const T> predictions, TensorView<const T> targets,
                      std::span<double> losses, TensorView<T> gradient, double scale,
                      const Formula& formula) {
  const std::size_t rows = predictions.samples();
  std::fill_n(losses.begin(), rows, 0.0);
  for (std::size_t f = 0; f < predictions.features(); ++f) {
    const T* const p = predictions.feature(f);
    const T* const t = targets.feature(f);
    T* const g = gradient.empty() ? nullptr : gradient.feature(f);
    for (std::size_t row = 0; row < rows; ++row) {
      const LossTerm term = formula(static_cast<double>(p[row]), static_cast<double>(t[row]));
      losses[row] += scale * term.value;
      if (g != nullptr) g[row] = static_cast<T>(scale * term.slope);
    }
  }
  if (!gradient.empty()) gradient.clear_padding();
}

/// The same with the mean over the outputs.
template <class T, class Formula>
void mean_over_outputs(TensorView<const T> predictions, TensorView<const T> targets,
                       std::span<double> losses, TensorView<T> gradient, const Formula& formula) {
  sum_over_outputs(predictions, targets, losses, gradient,
                   1 / static_cast<double>(predictions.features()), formula);
}

/// What a loss without options needs besides its name and `static LossTerm term(double prediction,
/// double target)`. (One with options cannot have a base: `{.delta = 1}` would not compile.)
template <class L>
struct MeanOverOutputs {
  template <class Out>
  static constexpr std::size_t target_size = Out::size;

  [[nodiscard]] std::string description() const { return std::string(L::name); }

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const {
    mean_over_outputs(predictions, targets, losses, gradient,
                      [](double p, double y) { return L::term(p, y); });
  }
};

}}}  // namespace lockstep::detail

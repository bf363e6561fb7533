// Cross-entropy between distributions over classes and predictions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/describe.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/losses/labels.hpp"
#include "lockstep/losses/softmax.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Cross-entropy for targets y that are distributions over n classes (one-hot vectors, as a rule)
/// and a flat output of n scores. In nats. Smoothed targets are s = y (1 - label_smoothing) +
/// label_smoothing / n.
///
///   from logits z:         sum_i s_i (log(sum_j exp z_j) - z_i)
///   from probabilities p:  -sum_i s_i log q_i,   q = p / sum_j p_j, clipped to [1e-7, 1 - 1e-7]
///
/// These are Keras 2's formulas. No target is checked; the gradient is that of the formula even
/// where y does not sum to 1, and is 0 through a clipped q_i. For class labels use
/// SparseCategoricalCrossentropy.
struct CategoricalCrossentropy {
  bool from_logits = false;    ///< true: the model ends without softmax
  double label_smoothing = 0;  ///< in [0, 1]

  static constexpr std::string_view name = "categorical_crossentropy";
  static constexpr std::string_view target_advice =
      "class labels are for SparseCategoricalCrossentropy";
  template <class Out>
  static constexpr std::size_t target_size = Out::size * detail::one_label<Out>();

  [[nodiscard]] std::string description() const {
    return describe(name, {{"from_logits", from_logits}, {"label_smoothing", label_smoothing}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    if (!(label_smoothing >= 0 && label_smoothing <= 1))
      throw ConfigurationError("categorical_crossentropy: label_smoothing is " +
                               number_text(label_smoothing) + "; expected a number in [0, 1]");
  }

  /// See Loss; `gradient` must not overlap `predictions`.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const;

 private:
  double smoothed(double target, std::size_t classes) const {
    return target * (1 - label_smoothing) + label_smoothing / static_cast<double>(classes);
  }

  // `gradient` holds softmax.
  template <class T>
  double logits_row(TensorView<const T> logits, TensorView<const T> targets, TensorView<T> gradient,
                    std::size_t row, T largest, T exponentials) const {
    const double log_sum = std::log(static_cast<double>(exponentials));
    double mass = 0, total = 0;
    for (std::size_t c = 0; c < logits.features(); ++c) {
      const double target = smoothed(static_cast<double>(targets(row, c)), logits.features());
      mass += target;
      total += target * (log_sum + static_cast<double>(largest - logits(row, c)));
    }
    if (gradient.empty()) return total;
    for (std::size_t c = 0; c < logits.features(); ++c) {
      const double target = smoothed(static_cast<double>(targets(row, c)), logits.features());
      gradient(row, c) = static_cast<T>(mass * static_cast<double>(gradient(row, c)) - target);
    }
    return total;
  }

  template <class T>
  double probabilities_row(TensorView<const T> probabilities, TensorView<const T> targets,
                           TensorView<T> gradient, std::size_t row) const {
    constexpr double low = 1e-7, high = 1 - 1e-7;
    const std::size_t classes = probabilities.features();
    double sum = 0, total = 0, active = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += static_cast<double>(probabilities(row, c));
    for (std::size_t c = 0; c < classes; ++c) {
      const double target = smoothed(static_cast<double>(targets(row, c)), classes);
      const double q = static_cast<double>(probabilities(row, c)) / sum;
      total -= target * std::log(std::clamp(q, low, high));
      if (q >= low && q <= high) active += target;
    }
    if (gradient.empty()) return total;
    for (std::size_t c = 0; c < classes; ++c) {
      const double target = smoothed(static_cast<double>(targets(row, c)), classes);
      const double q = static_cast<double>(probabilities(row, c)) / sum;
      const double direct = q >= low && q <= high ? target / q : 0.0;
      gradient(row, c) = static_cast<T>((active - direct) / sum);
    }
    return total;
  }
};

template <class T>
void CategoricalCrossentropy::compute(TensorView<const T> predictions, TensorView<const T> targets,
                                      std::span<double> losses, TensorView<T> gradient) const {
  detail::SoftmaxBlock<T> softmax;
  for (std::size_t row = 0; row < predictions.samples(); row += softmax.samples) {
    const std::size_t rows = std::min(softmax.samples, predictions.samples() - row);
    if (from_logits) {
      detail::softmax_block(predictions, gradient, row, softmax);
      for (std::size_t i = 0; i < rows; ++i)
        losses[row + i] =
            logits_row(predictions, targets, gradient, row + i, softmax.largest[i], softmax.sum[i]);
    } else {
      for (std::size_t i = 0; i < rows; ++i)
        losses[row + i] = probabilities_row(predictions, targets, gradient, row + i);
    }
  }
  if (!gradient.empty()) gradient.clear_padding();
}

LOCKSTEP_INSTANCE(void CategoricalCrossentropy::compute<float>(
    TensorView<const float>, TensorView<const float>, std::span<double>, TensorView<float>) const);
LOCKSTEP_INSTANCE(void CategoricalCrossentropy::compute<double>(TensorView<const double>,
                                                                TensorView<const double>,
                                                                std::span<double>,
                                                                TensorView<double>) const);

}  // namespace lockstep::inline LOCKSTEP_ABI

#pragma once

#include <algorithm>
#include <cmath>

#include "lockstep/core/describe.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/losses/categorical_crossentropy.hpp"
#include "lockstep/losses/softmax.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string CategoricalCrossentropy::description() const {
  return describe(name, {{"from_logits", from_logits}, {"label_smoothing", label_smoothing}});
}

LOCKSTEP_INLINE void CategoricalCrossentropy::validate() const {
  if (!(label_smoothing >= 0 && label_smoothing <= 1))
    throw ConfigurationError("categorical_crossentropy: label_smoothing is " +
                             number_text(label_smoothing) + "; expected a number in [0, 1]");
}

LOCKSTEP_INLINE double CategoricalCrossentropy::smoothed(double target, std::size_t classes) const {
  return target * (1 - label_smoothing) + label_smoothing / static_cast<double>(classes);
}

template <class T>
double CategoricalCrossentropy::logits_row(TensorView<const T> logits, TensorView<const T> targets,
                                           TensorView<T> gradient, std::size_t row, T largest,
                                           T exponentials) const {
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
double CategoricalCrossentropy::probabilities_row(TensorView<const T> probabilities,
                                                  TensorView<const T> targets,
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

}  // namespace lockstep::inline LOCKSTEP_ABI

#pragma once

#include <algorithm>
#include <cmath>

#include "lockstep/core/describe.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/losses/softmax.hpp"
#include "lockstep/losses/sparse_categorical_crossentropy.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string SparseCategoricalCrossentropy::description() const {
  std::string text = describe(name, {{"from_logits", from_logits}});
  if (ignore_class) text.insert(text.size() - 1, ", ignore_class=" + std::to_string(*ignore_class));
  if (label_smoothing != 0)
    text.insert(text.size() - 1, ", label_smoothing=" + number_text(label_smoothing));
  return text;
}

LOCKSTEP_INLINE void SparseCategoricalCrossentropy::validate() const {
  if (!(label_smoothing >= 0 && label_smoothing <= 1))
    throw ConfigurationError("sparse_categorical_crossentropy: label_smoothing is " +
                             number_text(label_smoothing) + "; expected a number in [0, 1]");
}

template <class T>
bool SparseCategoricalCrossentropy::ignore(TensorView<const T> labels, std::span<T> weights) const {
  if (!ignore_class) return false;
  for (std::size_t row = 0; row < weights.size(); ++row)
    if (labels(row, 0) == static_cast<T>(*ignore_class)) weights[row] = T(0);
  return true;
}

template <class T>
std::size_t SparseCategoricalCrossentropy::class_of(T label, std::size_t classes) {
  return label >= T(0) && label < static_cast<T>(classes) ? static_cast<std::size_t>(label) : 0;
}

template <class T>
void SparseCategoricalCrossentropy::logits_block(TensorView<const T> logits,
                                                 TensorView<const T> labels,
                                                 std::span<double> losses, TensorView<T> gradient,
                                                 std::size_t first) {
  detail::SoftmaxBlock<T> softmax;
  detail::softmax_block(logits, gradient, first, softmax);
  for (std::size_t i = 0; i < std::min(softmax.samples, logits.samples() - first); ++i) {
    const std::size_t label = class_of(labels(first + i, 0), logits.features());
    losses[first + i] = std::log(static_cast<double>(softmax.sum[i])) +
                        static_cast<double>(softmax.largest[i] - logits(first + i, label));
    if (!gradient.empty()) gradient(first + i, label) -= T(1);
  }
}

template <class T>
void SparseCategoricalCrossentropy::probabilities_block(TensorView<const T> probabilities,
                                                        TensorView<const T> labels,
                                                        std::span<double> losses,
                                                        TensorView<T> gradient, std::size_t first) {
  constexpr T low = T(1e-7), high = T(1) - T(1e-7);
  T sum[lanes] = {}, inverse[lanes];
  for (std::size_t c = 0; c < probabilities.features(); ++c) {
    const T* p = probabilities.feature(c) + first;
    for (std::size_t i = 0; i < lanes; ++i) sum[i] += std::clamp(p[i], low, high);
  }
  if (!gradient.empty()) {
    for (std::size_t i = 0; i < lanes; ++i) inverse[i] = T(1) / sum[i];
    for (std::size_t c = 0; c < probabilities.features(); ++c) {
      const T* p = probabilities.feature(c) + first;
      T* g = gradient.feature(c) + first;
      for (std::size_t i = 0; i < lanes; ++i) g[i] = p[i] < low || p[i] > high ? T(0) : inverse[i];
    }
  }
  for (std::size_t i = 0; i < std::min(lanes, probabilities.samples() - first); ++i) {
    const std::size_t label = class_of(labels(first + i, 0), probabilities.features());
    const T p = probabilities(first + i, label);
    losses[first + i] = std::log(static_cast<double>(sum[i])) -
                        std::log(static_cast<double>(std::clamp(p, low, high)));
    if (!gradient.empty() && !(p < low || p > high)) gradient(first + i, label) -= T(1) / p;
  }
}

template <class T>
void SparseCategoricalCrossentropy::smooth(TensorView<const T> predictions,
                                           TensorView<const T> labels, std::span<double> losses,
                                           TensorView<T> gradient) const {
  constexpr T low = T(1e-7), high = T(1) - T(1e-7);
  const std::size_t classes = predictions.features();
  const double share = label_smoothing / static_cast<double>(classes);
  const auto score = [&](T p) {
    return from_logits ? static_cast<double>(p)
                       : std::log(static_cast<double>(std::clamp(p, low, high)));
  };
  const auto slope = [&](T p) {  // of the score
    return from_logits ? T(1) : p < low || p > high ? T(0) : T(1) / p;
  };
  for (std::size_t row = 0; row < predictions.samples(); ++row) {
    const std::size_t label = class_of(labels(row, 0), classes);
    const double of_label = score(predictions(row, label));
    for (std::size_t c = 0; c < classes; ++c) {
      losses[row] += share * (of_label - score(predictions(row, c)));
      if (!gradient.empty()) gradient(row, c) -= static_cast<T>(share) * slope(predictions(row, c));
    }
    if (!gradient.empty())
      gradient(row, label) += static_cast<T>(label_smoothing) * slope(predictions(row, label));
  }
}

template <class T>
void SparseCategoricalCrossentropy::compute(TensorView<const T> predictions,
                                            TensorView<const T> targets, std::span<double> losses,
                                            TensorView<T> gradient) const {
  detail::check_labels(name, targets, predictions.features(), ignore_class);
  const std::size_t step = from_logits ? detail::SoftmaxBlock<T>::samples : lanes;
  for (std::size_t row = 0; row < predictions.samples(); row += step) {
    if (from_logits)
      logits_block(predictions, targets, losses, gradient, row);
    else
      probabilities_block(predictions, targets, losses, gradient, row);
  }
  if (label_smoothing != 0) smooth(predictions, targets, losses, gradient);
  if (!gradient.empty()) gradient.clear_padding();
}

}  // namespace lockstep::inline LOCKSTEP_ABI

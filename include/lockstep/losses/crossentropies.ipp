#pragma once

#include "lockstep/core/text.hpp"
#include "lockstep/kernels/elementary.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/losses/crossentropies.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string BinaryCrossentropy::description() const {
  return describe(name, {{"from_logits", from_logits}, {"label_smoothing", label_smoothing}});
}

LOCKSTEP_INLINE void BinaryCrossentropy::validate() const {
  if (!(label_smoothing >= 0 && label_smoothing <= 1))
    throw ConfigurationError("binary_crossentropy: label_smoothing is " +
                             number_text(label_smoothing) + "; expected a number in [0, 1]");
}

template <class T>
void BinaryCrossentropy::compute(TensorView<const T> predictions, TensorView<const T> targets,
                                 std::span<double> losses, TensorView<T> gradient) const {
  check(targets);
  std::fill_n(losses.begin(), predictions.samples(), 0.0);
  for (std::size_t f = 0; f < predictions.features(); ++f) {
    for (std::size_t row = 0; row < predictions.samples(); ++row) {
      const double target = smoothed(static_cast<double>(targets(row, f)));
      losses[row] += cross_entropy(static_cast<double>(predictions(row, f)), target) /
                     static_cast<double>(predictions.features());
    }
    if (!gradient.empty()) differentiate(predictions, targets, gradient, f);
  }
  if (!gradient.empty()) gradient.clear_padding();
}

template <class T>
void BinaryCrossentropy::check(TensorView<const T> targets) {
  for (std::size_t row = 0; row < targets.samples(); ++row)
    for (std::size_t f = 0; f < targets.features(); ++f)
      if (const auto target = static_cast<double>(targets(row, f)); !(target >= 0 && target <= 1))
        throw BadTarget("binary_crossentropy: a target of ", row,
                        concat({" is ", target, "; expected 0 to 1"}));
}

LOCKSTEP_INLINE double BinaryCrossentropy::smoothed(double target) const {
  return target * (1 - label_smoothing) + label_smoothing / 2;
}

LOCKSTEP_INLINE double BinaryCrossentropy::cross_entropy(double score, double target) const {
  if (from_logits)
    return std::max(score, 0.0) - score * target + std::log1p(std::exp(-std::abs(score)));
  const double q = std::clamp(score, lowest, 1 - lowest);
  return -target * std::log(q) - (1 - target) * std::log(1 - q);
}

template <class T>
void BinaryCrossentropy::differentiate(TensorView<const T> predictions, TensorView<const T> targets,
                                       TensorView<T> gradient, std::size_t f) const {
  const T scale = T(1) / static_cast<T>(predictions.features());
  const T kept = static_cast<T>(1 - label_smoothing), added = static_cast<T>(label_smoothing / 2);
  const T low = static_cast<T>(lowest), high = static_cast<T>(1 - lowest);
  const auto of_logit = [=](auto& g, const auto& z, const auto& y) LOCKSTEP_KERNEL_LAMBDA {
    using P = std::remove_cvref_t<decltype(g)>;
    const P small = exp(-abs(z));  // no overflow for either sign
    const P sigmoid = select(z < P(T(0)), small, P(T(1))) / (P(T(1)) + small);
    g = scale * (sigmoid - (kept * y + added));
  };
  const auto of_probability = [=](auto& g, const auto& p, const auto& y) LOCKSTEP_KERNEL_LAMBDA {
    using P = std::remove_cvref_t<decltype(g)>;
    const P slope = scale * (p - (kept * y + added)) / (p * (P(T(1)) - p));
    g = select((p >= P(low)) & (p <= P(high)), slope, P(T(0)));
  };
  const auto sweep = [&](const auto& formula) {
    kernels::sweep(predictions.samples(), formula, gradient.feature(f), predictions.feature(f),
                   targets.feature(f));
  };
  from_logits ? sweep(of_logit) : sweep(of_probability);
}

LOCKSTEP_INSTANCE(detail::LossCompute<LOCKSTEP_REAL> BinaryCrossentropy::compute);

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

LOCKSTEP_INSTANCE(detail::LossCompute<LOCKSTEP_REAL> CategoricalCrossentropy::compute);

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

LOCKSTEP_INSTANCE(detail::LossCompute<LOCKSTEP_REAL> SparseCategoricalCrossentropy::compute);
LOCKSTEP_INSTANCE(bool SparseCategoricalCrossentropy::ignore(TensorView<const LOCKSTEP_REAL>,
                                                             std::span<LOCKSTEP_REAL>) const);
}}  // namespace lockstep

#pragma once

#include <algorithm>
#include <cmath>

#include "lockstep/core/describe.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/kernels/exp.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/losses/bad_target.hpp"
#include "lockstep/losses/binary_crossentropy.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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

}  // namespace lockstep::inline LOCKSTEP_ABI

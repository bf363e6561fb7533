#pragma once

#include <algorithm>
#include <cmath>

#include "lockstep/core/describe.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/losses/binary_focal_crossentropy.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string BinaryFocalCrossentropy::description() const {
  return describe(name, {{"apply_class_balancing", apply_class_balancing},
                         {"alpha", alpha},
                         {"gamma", gamma},
                         {"from_logits", from_logits},
                         {"label_smoothing", label_smoothing}});
}

LOCKSTEP_INLINE void BinaryFocalCrossentropy::validate() const {
  if (!(alpha >= 0 && alpha <= 1 && gamma >= 0 && label_smoothing >= 0 && label_smoothing <= 1))
    throw ConfigurationError(
        description() + ": expected alpha and label_smoothing in [0, 1] and gamma of at least 0");
}

template <class T>
void BinaryFocalCrossentropy::compute(TensorView<const T> predictions, TensorView<const T> targets,
                                      std::span<double> losses, TensorView<T> gradient) const {
  detail::mean_over_outputs(predictions, targets, losses, gradient, [this](double score, double y) {
    const double target = y * (1 - label_smoothing) + label_smoothing / 2;
    if (!from_logits) return of_probability(score, target);
    const double p = 1 / (1 + std::exp(-score));
    const detail::LossTerm term = of_probability(p, target);
    return detail::LossTerm{term.value, term.slope * p * (1 - p)};
  });
}

LOCKSTEP_INLINE detail::LossTerm BinaryFocalCrossentropy::of_probability(double p,
                                                                         double target) const {
  constexpr double low = 1e-7, high = 1 - 1e-7;
  const double q = std::clamp(p, low, high);
  const double entropy = -target * std::log(q) - (1 - target) * std::log(1 - q);
  const double entropy_slope = p >= low && p <= high ? (q - target) / (q * (1 - q)) : 0.0;
  const double wrong = 1 - (target * p + (1 - target) * (1 - p));
  const double focus = std::pow(wrong, gamma);
  const double focus_slope =
      gamma > 0 && wrong > 0 ? gamma * focus / wrong * (1 - 2 * target) : 0.0;
  const double weight = apply_class_balancing ? target * alpha + (1 - target) * (1 - alpha) : 1.0;
  return {weight * focus * entropy, weight * (focus * entropy_slope + focus_slope * entropy)};
}

}  // namespace lockstep::inline LOCKSTEP_ABI

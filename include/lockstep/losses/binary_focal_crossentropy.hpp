// Cross-entropy of yes-or-no answers with less weight for the easy ones.
#pragma once

#include <algorithm>
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

/// Mean over the outputs of a row of w (1 - t)^gamma c: c is the cross-entropy of the smoothed
/// target s = y (1 - label_smoothing) + label_smoothing / 2 and the probability p, t = s p + (1 -
/// s) (1 - p) is how right p is, and w = s alpha + (1 - s) (1 - alpha) with apply_class_balancing,
/// else 1. In c, p is clipped to [1e-7, 1 - 1e-7], also where it comes from a logit, as in Keras;
/// the gradient through a clipped p is 0. (T. Lin and others, Focal Loss for Dense Object
/// Detection, 2017.)
struct BinaryFocalCrossentropy {
  bool apply_class_balancing = false;
  double alpha = 0.25;         ///< weight of the answer 1, in [0, 1]; the answer 0 has 1 - alpha
  double gamma = 2;            ///< at least 0; with 0, BinaryCrossentropy
  bool from_logits = false;    ///< true: the model ends without sigmoid
  double label_smoothing = 0;  ///< in [0, 1]

  static constexpr std::string_view name = "binary_focal_crossentropy";
  template <class Out>
  static constexpr std::size_t target_size = Out::size;

  [[nodiscard]] std::string description() const {
    return describe(name, {{"apply_class_balancing", apply_class_balancing},
                           {"alpha", alpha},
                           {"gamma", gamma},
                           {"from_logits", from_logits},
                           {"label_smoothing", label_smoothing}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    if (!(alpha >= 0 && alpha <= 1 && gamma >= 0 && label_smoothing >= 0 && label_smoothing <= 1))
      throw ConfigurationError(
          description() + ": expected alpha and label_smoothing in [0, 1] and gamma of at least 0");
  }

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const {
    detail::mean_over_outputs(
        predictions, targets, losses, gradient, [this](double score, double y) {
          const double target = y * (1 - label_smoothing) + label_smoothing / 2;
          if (!from_logits) return of_probability(score, target);
          const double p = 1 / (1 + std::exp(-score));
          const detail::LossTerm term = of_probability(p, target);
          return detail::LossTerm{term.value, term.slope * p * (1 - p)};
        });
  }

 private:
  [[nodiscard]] detail::LossTerm of_probability(double p, double target) const {
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
};

}  // namespace lockstep::inline LOCKSTEP_ABI

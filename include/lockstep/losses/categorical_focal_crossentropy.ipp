#pragma once

#include <algorithm>
#include <cmath>

#include "lockstep/core/describe.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/losses/categorical_focal_crossentropy.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string CategoricalFocalCrossentropy::description() const {
  return describe(name, {{"alpha", alpha},
                         {"gamma", gamma},
                         {"from_logits", from_logits},
                         {"label_smoothing", label_smoothing}});
}

LOCKSTEP_INLINE void CategoricalFocalCrossentropy::validate() const {
  if (!(alpha >= 0 && gamma >= 0 && label_smoothing >= 0 && label_smoothing <= 1))
    throw ConfigurationError(
        description() + ": expected alpha and gamma of at least 0 and label_smoothing in [0, 1]");
}

template <class T>
void CategoricalFocalCrossentropy::compute(TensorView<const T> predictions,
                                           TensorView<const T> targets, std::span<double> losses,
                                           TensorView<T> gradient) const {
  const std::size_t classes = predictions.features();
  for (std::size_t row = 0; row < predictions.samples(); ++row) {
    const Scale scale = scale_of(predictions, row);
    const auto term_of = [&](std::size_t c, double q) {
      const auto target = static_cast<double>(targets(row, c));
      return term(q,
                  target * (1 - label_smoothing) + label_smoothing / static_cast<double>(classes));
    };
    double loss = 0, mean_slope = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      const double q = share(static_cast<double>(predictions(row, c)), scale);
      const Term of_class = term_of(c, q);
      loss += of_class.value;
      mean_slope += q * of_class.slope;
    }
    losses[row] = loss;
    if (gradient.empty()) continue;
    for (std::size_t c = 0; c < classes; ++c) {
      const double q = share(static_cast<double>(predictions(row, c)), scale);
      const double slope = term_of(c, q).slope - mean_slope;
      gradient(row, c) = static_cast<T>(from_logits ? q * slope : slope / scale.sum);
    }
  }
  if (!gradient.empty()) gradient.clear_padding();
}

template <class T>
auto CategoricalFocalCrossentropy::scale_of(TensorView<const T> predictions, std::size_t row) const
    -> Scale {
  Scale scale{static_cast<double>(predictions(row, 0)), 0};
  for (std::size_t c = 1; c < predictions.features(); ++c)
    scale.largest = std::max(scale.largest, static_cast<double>(predictions(row, c)));
  for (std::size_t c = 0; c < predictions.features(); ++c) {
    const auto score = static_cast<double>(predictions(row, c));
    scale.sum += from_logits ? std::exp(score - scale.largest) : score;
  }
  return scale;
}

LOCKSTEP_INLINE double CategoricalFocalCrossentropy::share(double score, const Scale& scale) const {
  return (from_logits ? std::exp(score - scale.largest) : score) / scale.sum;
}

LOCKSTEP_INLINE auto CategoricalFocalCrossentropy::term(double q, double target) const -> Term {
  constexpr double low = 1e-7, high = 1 - 1e-7;
  const double clipped = std::clamp(q, low, high), wrong = 1 - clipped;
  const double entropy = -target * std::log(clipped), focus = alpha * std::pow(wrong, gamma);
  const double slope = -focus * target / clipped - gamma * focus / wrong * entropy;
  return {focus * entropy, q >= low && q <= high ? slope : 0.0};
}

}  // namespace lockstep::inline LOCKSTEP_ABI

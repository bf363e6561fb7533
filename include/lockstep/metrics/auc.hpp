// Area under the ROC curve.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/same_width.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The area under the curve of the true positive rate over the false positive rate, as Keras
/// computes it: at 200 thresholds in [0, 1], with straight lines between them. Outputs are
/// probabilities, or logits with from_logits; targets are 0 and 1, or shares of both. Several
/// outputs count like samples. 0 unless both classes have come.
struct AUC {
  bool from_logits = false;

  static constexpr std::size_t num_thresholds = 200;
  static constexpr std::string_view name = "auc";
  /// For each threshold: the positives above it and not above the next, and the negatives.
  static constexpr std::size_t state_size = 2 * num_thresholds;

  /// Throws DataError when the widths of predictions and targets differ, and for a prediction that
  /// is no probability.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets, std::span<const T> weights,
              std::span<double> state) const {
    detail::require_same_width("AUC", predictions.features(), targets.features());
    for (std::size_t f = 0; f < predictions.features(); ++f)
      for (std::size_t row = 0; row < predictions.samples(); ++row) {
        const double weight = weights.empty() ? 1.0 : static_cast<double>(weights[row]);
        const auto target = static_cast<double>(targets(row, f));
        const std::size_t above = last_threshold_below(static_cast<double>(predictions(row, f)));
        state[above] += weight * target;
        state[num_thresholds + above] += weight * (1 - target);
      }
  }

  [[nodiscard]] double result(std::span<const double> state) const {
    double positives = 0, negatives = 0, twice_area = 0;  // above the threshold
    for (std::size_t i = num_thresholds; i > 0; --i) {
      const double more = state[i - 1], more_negatives = state[num_thresholds + i - 1];
      twice_area += more_negatives * (positives + positives + more);
      positives += more;
      negatives += more_negatives;
    }
    return positives > 0 && negatives > 0 ? twice_area / 2 / positives / negatives : 0.0;
  }

 private:
  [[nodiscard]] std::size_t last_threshold_below(double score) const {
    const double p = from_logits ? 1 / (1 + std::exp(-score)) : score;
    if (p < 0 || p > 1)
      throw DataError(concat(
          {"AUC: a prediction is ", p, "; expected a probability: end the model with a sigmoid, or set .from_logits"}));
    const double place = std::ceil(p * static_cast<double>(num_thresholds - 1)) - 1;
    return place > 0 ? static_cast<std::size_t>(place) : 0;  // (0 for NaN)
  }
};
static_assert(Metric<AUC, float> && Metric<AUC, double>);

}  // namespace lockstep::inline LOCKSTEP_ABI

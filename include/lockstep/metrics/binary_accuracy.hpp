// Share of right yes-or-no answers.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/describe_metric.hpp"
#include "lockstep/metrics/same_width.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The share of outputs of all samples that are above the threshold exactly when their target is 1;
/// for logits a threshold of 0 is that of probability 0.5.
struct BinaryAccuracy {
  double threshold = 0.5;

  std::string_view name = "binary_accuracy";

  static constexpr std::size_t state_size = 2;  // right answers, answers

  [[nodiscard]] std::string description() const {
    return detail::describe_metric("binary_accuracy", {{"threshold", threshold, 0.5}});
  }

  /// Throws DataError when the widths of predictions and targets differ.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const {
    detail::require_same_width("BinaryAccuracy", predictions.features(), targets.features());
    for (std::size_t f = 0; f < predictions.features(); ++f)
      for (std::size_t row = 0; row < predictions.samples(); ++row) {
        const double weight = weights.empty() ? 1.0 : static_cast<double>(weights[row]);
        const T answer = static_cast<double>(predictions(row, f)) > threshold ? T(1) : T(0);
        state[0] += answer == targets(row, f) ? weight : 0;
        state[1] += weight;
      }
  }

  [[nodiscard]] double result(std::span<const double> state) const {
    return state[1] > 0 ? state[0] / state[1] : 0.0;
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI

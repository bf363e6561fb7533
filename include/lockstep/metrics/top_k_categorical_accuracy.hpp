// Share of samples whose class is among the best k, for one-hot targets.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/metric_rows.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// Adds the rows whose class has fewer than k scores above its own; ties at the k-th count, and a
/// score that is not finite does not.
template <class T, class ClassOf>
void count_top_k(TensorView<const T> predictions, std::span<const T> weights, int k,
                 std::span<double> state, const ClassOf& class_of) {
  for (std::size_t row = 0; row < predictions.samples(); ++row) {
    const double weight = weight_of(weights, row);
    if (weight == 0) continue;
    const T score = predictions(row, class_of(row));
    int above = 0;
    for (std::size_t c = 0; c < predictions.features(); ++c)
      above += predictions(row, c) > score ? 1 : 0;
    state[0] += above < k && std::isfinite(score) ? weight : 0;
    state[1] += weight;
  }
}

void check_top_k(std::string_view metric, int k);

}  // namespace detail

/// The share of rows whose class, the place of the largest target, has one of the k highest
/// outputs. Ties at the k-th place count.
struct TopKCategoricalAccuracy {
  int k = 5;  ///< at least 1
  std::string_view name = "top_k_categorical_accuracy";

  static constexpr std::size_t state_size = 2;  // right answers, samples

  [[nodiscard]] std::string description() const;
  /// Throws ConfigurationError.
  void validate() const { detail::check_top_k(name, k); }

  /// Throws DataError when the widths of predictions and targets differ, or are 1.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;

  [[nodiscard]] double result(std::span<const double> state) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/metrics/top_k_categorical_accuracy.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_METRIC_INSTANCES(TopKCategoricalAccuracy);
}  // namespace lockstep::inline LOCKSTEP_ABI

// Share of the targets' variance that the model explains.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/metrics/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// How the scores of several outputs become one.
enum class ClassAggregation {
  uniform_average,           ///< their mean
  variance_weighted_average  ///< weighted by the variances of their targets
};

/// 1 - sum (y - p)^2 / sum (y - mean y)^2 for predictions p and targets y of each output, the
/// coefficient of determination. An output whose targets are all equal counts as 0. With
/// num_regressors k, the figure is adjusted to n rows: 1 - (1 - R^2) (n - 1) / (n - k - 1), where n
/// > k + 1. (Keras takes the number of all targets for n, which is the same for one output.)
struct R2Score {
  ClassAggregation class_aggregation = ClassAggregation::uniform_average;
  int num_regressors = 0;  ///< at least 0
  std::string_view name = "r2_score";

  /// For each output the sums of targets, of their squares and of squared errors; weights, rows.
  [[nodiscard]] static std::size_t state_size(std::size_t outputs) { return 3 * outputs + 2; }

  [[nodiscard]] std::string description() const;
  /// Throws ConfigurationError.
  void validate() const;

  /// Throws DataError when the widths of predictions and targets differ.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;

  [[nodiscard]] double result(std::span<const double> state) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/metrics/r2_score.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_METRIC_INSTANCES(R2Score);
}  // namespace lockstep::inline LOCKSTEP_ABI

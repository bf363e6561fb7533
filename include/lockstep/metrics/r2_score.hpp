// Share of the targets' variance that the model explains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/metric_rows.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// How the scores of several outputs become one.
enum class ClassAggregation {
  uniform_average,           ///< their mean
  variance_weighted_average  ///< weighted by the variances of their targets
};

/// 1 - sum (y - p)^2 / sum (y - mean y)^2 for predictions p and targets y of each output, the
/// coefficient of determination. An output whose targets are all equal counts as 0. With
/// num_regressors k, the figure is adjusted to n rows: 1 - (1 - R^2) (n - 1) / (n - k - 1), where n
/// > k + 1. (Keras takes the number of all targets for n, which is the same for one output.)
/// Use: `R2Score{}`.
struct R2Score {
  ClassAggregation class_aggregation = ClassAggregation::uniform_average;
  int num_regressors = 0;  ///< at least 0
  std::string_view name = "r2_score";

  /// For each output the sums of targets, of their squares and of squared errors; weights, rows.
  [[nodiscard]] static std::size_t state_size(std::size_t outputs) { return 3 * outputs + 2; }

  [[nodiscard]] std::string description() const {
    const bool is_uniform = class_aggregation == ClassAggregation::uniform_average;
    return detail::describe_metric(
        "r2_score", {{"class_aggregation",
                      std::string(is_uniform ? "uniform_average" : "variance_weighted_average"),
                      std::string("uniform_average")},
                     {"num_regressors", std::int64_t{num_regressors}, std::int64_t{0}}});
  }
  /// Throws ConfigurationError.
  void validate() const {
    if (num_regressors < 0)
      throw ConfigurationError(
          concat({name, ": num_regressors must be at least 0, got ", num_regressors}));
  }

  /// Throws DataError when the widths of predictions and targets differ.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;

  [[nodiscard]] double result(std::span<const double> state) const {
    const std::size_t outputs = (state.size() - 2) / 3;
    const double weights = state[3 * outputs], rows = state[3 * outputs + 1];
    if (!(weights > 0)) return 0;
    double scores = 0, factors = 0;
    for (std::size_t o = 0; o < outputs; ++o) {
      const double sum = state[3 * o], squares = state[3 * o + 1];
      double variation = squares - sum * sum / weights;
      if (variation < 1e-10 * squares) variation = 0;  // constant targets leave rounding errors
      const double score = variation > 0 ? 1 - state[3 * o + 2] / variation : 0.0;
      const double factor = class_aggregation == ClassAggregation::uniform_average ? 1 : variation;
      scores += factor * score;
      factors += factor;
    }
    const double score = factors > 0 ? scores / factors : 0.0;
    const double freedom = rows - num_regressors - 1;
    return num_regressors > 0 && freedom > 0 ? 1 - (1 - score) * (rows - 1) / freedom : score;
  }
};

template <class T>
void R2Score::update(TensorView<const T> predictions, TensorView<const T> targets,
                     std::span<const T> weights, std::span<double> state) const {
  detail::require_same_width("R2Score", predictions.features(), targets.features());
  const std::size_t outputs = predictions.features();
  for (std::size_t row = 0; row < predictions.samples(); ++row) {
    const double weight = detail::weight_of(weights, row);
    if (weight == 0) continue;
    for (std::size_t o = 0; o < outputs; ++o) {
      const auto y = static_cast<double>(targets(row, o));
      const double error = y - static_cast<double>(predictions(row, o));
      state[3 * o] += weight * y;
      state[3 * o + 1] += weight * y * y;
      state[3 * o + 2] += weight * error * error;
    }
    state[3 * outputs] += weight;
    state[3 * outputs + 1] += 1;
  }
}

}}  // namespace lockstep

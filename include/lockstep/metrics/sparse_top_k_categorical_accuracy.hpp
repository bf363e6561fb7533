// Share of samples whose class is among the best k, for class labels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/describe_metric.hpp"
#include "lockstep/metrics/metric_rows.hpp"
#include "lockstep/metrics/same_width.hpp"
#include "lockstep/metrics/top_k_categorical_accuracy.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The share of rows whose class label has one of the k highest outputs. Ties at the k-th place
/// count.
struct SparseTopKCategoricalAccuracy {
  int k = 5;  ///< at least 1
  std::string_view name = "sparse_top_k_categorical_accuracy";

  static constexpr std::size_t state_size = 2;  // right answers, samples

  [[nodiscard]] std::string description() const {
    return detail::describe_metric("sparse_top_k_categorical_accuracy",
                                   {{"k", std::int64_t{k}, std::int64_t{5}}});
  }
  /// Throws ConfigurationError.
  void validate() const { detail::check_top_k(name, k); }

  /// Throws DataError unless there is one target for several outputs, and for a label that is no
  /// class.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const {
    const std::size_t classes = predictions.features();
    detail::require_labels("SparseTopKCategoricalAccuracy", targets.features());
    detail::require_classes("SparseTopKCategoricalAccuracy", classes);
    detail::count_top_k(predictions, weights, k, state, [&](std::size_t row) {
      const std::size_t label = detail::class_of_label(targets(row, 0), classes);
      if (label == classes) detail::throw_no_class("SparseTopKCategoricalAccuracy", row, classes);
      return label;
    });
  }

  [[nodiscard]] double result(std::span<const double> state) const {
    return state[1] > 0 ? state[0] / state[1] : 0.0;
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI

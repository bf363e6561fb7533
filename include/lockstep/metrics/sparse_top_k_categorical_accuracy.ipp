#pragma once

#include "lockstep/metrics/describe_metric.hpp"
#include "lockstep/metrics/metric_rows.hpp"
#include "lockstep/metrics/same_width.hpp"
#include "lockstep/metrics/sparse_top_k_categorical_accuracy.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string SparseTopKCategoricalAccuracy::description() const {
  return detail::describe_metric("sparse_top_k_categorical_accuracy",
                                 {{"k", std::int64_t{k}, std::int64_t{5}}});
}

template <class T>
void SparseTopKCategoricalAccuracy::update(TensorView<const T> predictions,
                                           TensorView<const T> targets, std::span<const T> weights,
                                           std::span<double> state) const {
  const std::size_t classes = predictions.features();
  detail::require_labels("SparseTopKCategoricalAccuracy", targets.features());
  detail::require_classes("SparseTopKCategoricalAccuracy", classes);
  detail::count_top_k(predictions, weights, k, state, [&](std::size_t row) {
    const std::size_t label = detail::class_of_label(targets(row, 0), classes);
    if (label == classes) detail::throw_no_class("SparseTopKCategoricalAccuracy", row, classes);
    return label;
  });
}

LOCKSTEP_INLINE double SparseTopKCategoricalAccuracy::result(std::span<const double> state) const {
  return state[1] > 0 ? state[0] / state[1] : 0.0;
}

}  // namespace lockstep::inline LOCKSTEP_ABI

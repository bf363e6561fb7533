#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/metrics/describe_metric.hpp"
#include "lockstep/metrics/same_width.hpp"
#include "lockstep/metrics/top_k_categorical_accuracy.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE void check_top_k(std::string_view metric, int k) {
  if (k < 1) throw ConfigurationError(concat({metric, ": k must be at least 1, got ", k}));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string TopKCategoricalAccuracy::description() const {
  return detail::describe_metric("top_k_categorical_accuracy",
                                 {{"k", std::int64_t{k}, std::int64_t{5}}});
}

template <class T>
void TopKCategoricalAccuracy::update(TensorView<const T> predictions, TensorView<const T> targets,
                                     std::span<const T> weights, std::span<double> state) const {
  detail::require_same_width("TopKCategoricalAccuracy", predictions.features(), targets.features());
  detail::require_classes("TopKCategoricalAccuracy", predictions.features());
  detail::count_top_k(predictions, weights, k, state,
                      [&](std::size_t row) { return detail::place_of_largest(targets, row); });
}

LOCKSTEP_INLINE double TopKCategoricalAccuracy::result(std::span<const double> state) const {
  return state[1] > 0 ? state[0] / state[1] : 0.0;
}

}  // namespace lockstep::inline LOCKSTEP_ABI

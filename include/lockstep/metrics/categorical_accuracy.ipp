#pragma once

#include "lockstep/metrics/categorical_accuracy.hpp"
#include "lockstep/metrics/same_width.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

template <class T>
void CategoricalAccuracy::update(TensorView<const T> predictions, TensorView<const T> targets,
                                 std::span<const T> weights, std::span<double> state) const {
  detail::require_same_width("CategoricalAccuracy", predictions.features(), targets.features());
  detail::require_classes("CategoricalAccuracy", predictions.features());
  Accuracy{}.update(predictions, targets, weights, state);
}

LOCKSTEP_INLINE double CategoricalAccuracy::result(std::span<const double> state) const {
  return Accuracy{}.result(state);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

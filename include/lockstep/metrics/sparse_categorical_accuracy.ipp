#pragma once

#include "lockstep/metrics/same_width.hpp"
#include "lockstep/metrics/sparse_categorical_accuracy.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

template <class T>
void SparseCategoricalAccuracy::update(TensorView<const T> predictions, TensorView<const T> targets,
                                       std::span<const T> weights, std::span<double> state) const {
  detail::require_labels("SparseCategoricalAccuracy", targets.features());
  detail::require_classes("SparseCategoricalAccuracy", predictions.features());
  Accuracy{}.update(predictions, targets, weights, state);
}

LOCKSTEP_INLINE double SparseCategoricalAccuracy::result(std::span<const double> state) const {
  return Accuracy{}.result(state);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

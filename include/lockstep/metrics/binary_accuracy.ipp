#pragma once

#include "lockstep/metrics/binary_accuracy.hpp"
#include "lockstep/metrics/describe_metric.hpp"
#include "lockstep/metrics/same_width.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string BinaryAccuracy::description() const {
  return detail::describe_metric("binary_accuracy", {{"threshold", threshold, 0.5}});
}

template <class T>
void BinaryAccuracy::update(TensorView<const T> predictions, TensorView<const T> targets,
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

LOCKSTEP_INLINE double BinaryAccuracy::result(std::span<const double> state) const {
  return state[1] > 0 ? state[0] / state[1] : 0.0;
}

}  // namespace lockstep::inline LOCKSTEP_ABI

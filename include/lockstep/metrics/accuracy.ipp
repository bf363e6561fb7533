#pragma once

#include <algorithm>
#include <string>

#include "lockstep/core/error.hpp"
#include "lockstep/metrics/accuracy.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

template <class T>
void Accuracy::update(TensorView<const T> predictions, TensorView<const T> targets,
                      std::span<const T> weights, std::span<double> state) const {
  const std::size_t outputs = predictions.features();
  if (targets.features() != 1 && targets.features() != outputs)
    throw DataError("Accuracy: the model has " + std::to_string(outputs) +
                    " outputs and the data " + std::to_string(targets.features()) +
                    " target values per sample; expected 1 or " + std::to_string(outputs));
  double right = 0, all = 0;
  for (std::size_t row = 0; row < predictions.samples(); row += lanes) {
    T answers[lanes], wanted[lanes];
    if (outputs == 1)
      for (std::size_t i = 0; i < lanes; ++i)
        answers[i] = predictions.data()[row + i] > T(0.5) ? T(1) : T(0);
    else
      find_largest(predictions, row, answers);
    if (targets.features() == 1)
      std::copy_n(targets.data() + row, lanes, wanted);
    else
      find_largest(targets, row, wanted);
    for (std::size_t i = 0; i < std::min(lanes, predictions.samples() - row); ++i) {
      const double weight = weights.empty() ? 1.0 : static_cast<double>(weights[row + i]);
      right += answers[i] == wanted[i] ? weight : 0;
      all += weight;
    }
  }
  state[0] += right;
  state[1] += all;
}

LOCKSTEP_INLINE double Accuracy::result(std::span<const double> state) const {
  return state[1] > 0 ? state[0] / state[1] : 0.0;
}

template <class T>
void Accuracy::find_largest(TensorView<const T> values, std::size_t row, T (&index)[lanes]) {
  T largest[lanes];
  std::copy_n(values.feature(0) + row, lanes, largest);
  std::fill_n(index, lanes, T(0));
  for (std::size_t c = 1; c < values.features(); ++c) {
    const T* v = values.feature(c) + row;
    for (std::size_t i = 0; i < lanes; ++i) {
      index[i] = v[i] > largest[i] ? static_cast<T>(c) : index[i];
      largest[i] = v[i] > largest[i] ? v[i] : largest[i];
    }
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#pragma once

#include <algorithm>
#include <string>

#include "lockstep/core/error.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/metrics/metric_rows.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

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

LOCKSTEP_INSTANCE(detail::MetricUpdate<LOCKSTEP_REAL> Accuracy::update);

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

LOCKSTEP_INSTANCE(detail::MetricUpdate<LOCKSTEP_REAL> BinaryAccuracy::update);

template <bool IsSparse>
template <class T>
void detail::ClassAccuracy<IsSparse>::update(TensorView<const T> predictions,
                                             TensorView<const T> targets,
                                             std::span<const T> weights,
                                             std::span<double> state) const {
  require_classified(IsSparse ? "SparseCategoricalAccuracy" : "CategoricalAccuracy", IsSparse,
                     predictions.features(), targets.features());
  Accuracy{}.update(predictions, targets, weights, state);
}

LOCKSTEP_INSTANCE(detail::MetricUpdate<LOCKSTEP_REAL> CategoricalAccuracy::update);
LOCKSTEP_INSTANCE(detail::MetricUpdate<LOCKSTEP_REAL> SparseCategoricalAccuracy::update);

}}  // namespace lockstep

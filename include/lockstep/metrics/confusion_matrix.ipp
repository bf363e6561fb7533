#pragma once

#include <Eigen/Core>
#include <cmath>

#include "lockstep/core/text.hpp"
#include "lockstep/metrics/confusion_matrix.hpp"
#include "lockstep/metrics/describe_metric.hpp"
#include "lockstep/metrics/metric_rows.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string ConfusionMatrix::description() const {
  return detail::describe_metric("confusion_matrix", {{"threshold", threshold, 0.5}});
}

LOCKSTEP_INLINE double ConfusionMatrix::result(std::span<const double> state) const {
  const std::size_t classes = side_of(state);
  double right = 0, all = 0;
  for (std::size_t i = 0; i < state.size(); ++i) {
    all += state[i];
    if (i % (classes + 1) == 0) right += state[i];
  }
  return all > 0 ? right / all : 0.0;
}

LOCKSTEP_INLINE Eigen::MatrixXd ConfusionMatrix::matrix(const Logs& logs, std::string_view key) {
  Eigen::Index classes = 0;
  while (logs.contains(concat({key, "_0_", classes}))) ++classes;
  Eigen::MatrixXd counts(classes, classes);
  if (classes == 0) (void)logs.at(concat({key, "_0_0"}));
  for (Eigen::Index row = 0; row < classes; ++row)
    for (Eigen::Index column = 0; column < classes; ++column)
      counts(row, column) = logs.at(concat({key, "_", row, "_", column}));
  return counts;
}

LOCKSTEP_INLINE std::size_t ConfusionMatrix::side_of(std::span<const double> state) {
  return static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(state.size()))));
}

LOCKSTEP_INLINE std::size_t ConfusionMatrix::state_size(std::size_t outputs) {
  return classes_of(outputs) * classes_of(outputs);
}

template <class T>
void ConfusionMatrix::update(TensorView<const T> predictions, TensorView<const T> targets,
                             std::span<const T> weights, std::span<double> state) const {
  const std::size_t outputs = predictions.features(), classes = classes_of(outputs);
  for (std::size_t row = 0; row < predictions.samples(); ++row) {
    const double weight = detail::weight_of(weights, row);
    if (weight == 0) continue;
    const std::size_t wanted = detail::class_of_row(targets, row, classes);
    if (wanted == classes) detail::throw_no_class("ConfusionMatrix", row, classes);
    const std::size_t predicted = outputs > 1 ? detail::place_of_largest(predictions, row)
                                  : static_cast<double>(predictions(row, 0)) > threshold ? 1
                                                                                         : 0;
    state[wanted * classes + predicted] += weight;
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#pragma once

#include <cmath>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/metrics/describe_metric.hpp"
#include "lockstep/metrics/mean_iou.hpp"
#include "lockstep/metrics/metric_rows.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::size_t MeanIoU::state_size(std::size_t outputs) const {
  const std::size_t classes = num_classes > 0 ? num_classes : outputs;
  if (classes < 2 || classes > 4096)
    throw ConfigurationError(
        concat({name, ": expected 2 to 4096 classes, got ", classes, ": set num_classes"}));
  return classes * classes;
}

LOCKSTEP_INLINE std::string MeanIoU::description() const {
  return detail::describe_metric(
      "mean_io_u", {{"num_classes", static_cast<std::int64_t>(num_classes), std::int64_t{0}},
                    {"ignore_class", detail::optional_text(ignore_class), std::string("none")}});
}

template <class T>
void MeanIoU::update(TensorView<const T> predictions, TensorView<const T> targets,
                     std::span<const T> weights, std::span<double> state) const {
  const std::size_t classes = side_of(state);
  for (std::size_t row = 0; row < predictions.samples(); ++row) {
    const double weight = detail::weight_of(weights, row);
    const std::size_t wanted = detail::class_of_row(targets, row, classes);
    const std::size_t predicted = detail::class_of_row(predictions, row, classes);
    if (weight == 0 || wanted == classes || predicted == classes) continue;
    if (ignore_class && static_cast<std::int64_t>(wanted) == *ignore_class) continue;
    state[wanted * classes + predicted] += weight;
  }
}

LOCKSTEP_INLINE double MeanIoU::result(std::span<const double> state) const {
  const std::size_t classes = side_of(state);
  double sum = 0, valid = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    double all = -state[c * classes + c];
    for (std::size_t other = 0; other < classes; ++other)
      all += state[c * classes + other] + state[other * classes + c];
    if (all <= 1e-9) continue;
    sum += state[c * classes + c] / all;
    valid += 1;
  }
  return valid > 0 ? sum / valid : 0.0;
}

LOCKSTEP_INLINE std::size_t MeanIoU::side_of(std::span<const double> state) {
  return static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(state.size()))));
}

}  // namespace lockstep::inline LOCKSTEP_ABI

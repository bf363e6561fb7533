// Which classes are taken for which, and how far they overlap.
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/metric_rows.hpp"

namespace Eigen {
template <class Scalar, int Rows, int Columns, int Options, int MostRows, int MostColumns>
class Matrix;  // a caller of matrix() has the rest of Eigen
}

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Counts of (class, predicted class), tf.math.confusion_matrix over a whole pass and all ranks.
/// The class is a label or the place of the largest target; the predicted one is the place of the
/// largest output or, for a single output, whether it is above the threshold. The logs have an
/// entry for each cell, "confusion_matrix_2_5" for a 2 that was taken for a 5; matrix() puts them
/// together.
/// Use: `ConfusionMatrix{}`. Keras: `tf.math.confusion_matrix`.
struct ConfusionMatrix {
  double threshold = 0.5;  ///< for a model with one output
  std::string_view name = "confusion_matrix";

  [[nodiscard]] static std::size_t state_size(std::size_t outputs) {
    return classes_of(outputs) * classes_of(outputs);
  }
  [[nodiscard]] std::string description() const {
    return detail::describe_metric("confusion_matrix", {{"threshold", threshold, 0.5}});
  }

  /// Throws DataError for a target that is no class.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;

  /// The share of rows on the diagonal.
  [[nodiscard]] double result(std::span<const double> state) const {
    const std::size_t classes = side_of(state);
    double right = 0, all = 0;
    for (std::size_t i = 0; i < state.size(); ++i) {
      all += state[i];
      if (i % (classes + 1) == 0) right += state[i];
    }
    return all > 0 ? right / all : 0.0;
  }

  template <class Set>
  void report(std::span<const double> state, Set&& set) const {
    const std::size_t classes = side_of(state);
    for (std::size_t i = 0; i < state.size(); ++i)
      set(std::string_view(concat({"_", i / classes, "_", i % classes})), state[i]);
  }

  /// The counts that evaluate or fit has left in the logs: a row for each class, a column for each
  /// predicted one, as an Eigen::MatrixXd (the caller includes <Eigen/Core>). `key`: that of the
  /// metric, with its prefix. Throws Error when the logs have none.
  [[nodiscard]] static Eigen::Matrix<double, -1, -1, 0, -1, -1> matrix(
      const Logs& logs, std::string_view key = "confusion_matrix") {
    Eigen::Index classes = 0;
    while (logs.contains(concat({key, "_0_", classes}))) ++classes;
    Eigen::MatrixXd counts(classes, classes);
    if (classes == 0) (void)logs.at(concat({key, "_0_0"}));
    for (Eigen::Index row = 0; row < classes; ++row)
      for (Eigen::Index column = 0; column < classes; ++column)
        counts(row, column) = logs.at(concat({key, "_", row, "_", column}));
    return counts;
  }

 private:
  static std::size_t classes_of(std::size_t outputs) { return outputs > 1 ? outputs : 2; }
  static std::size_t side_of(std::span<const double> state) {
    return static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(state.size()))));
  }
};

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

/// Intersection over union: hits / (hits + wrong alarms + misses) of each class, the mean over
/// those that occur or are predicted. Classes are labels, or places of the largest of several
/// outputs or targets (Keras's sparse_y_pred and sparse_y_true are taken from the widths). Numbers
/// that are no class do not count.
/// Use: `MeanIoU{.num_classes = 3}`.
struct MeanIoU {
  std::size_t num_classes = 0;           ///< 0: the number of outputs
  std::optional<int> ignore_class = {};  ///< rows with this class, which may be none, do not count
  std::string_view name = "mean_io_u";

  /// Counts of (class, predicted class).
  [[nodiscard]] std::size_t state_size(std::size_t outputs) const {
    const std::size_t classes = num_classes > 0 ? num_classes : outputs;
    if (classes < 2 || classes > 4096)
      throw ConfigurationError(
          concat({name, ": expected 2 to 4096 classes, got ", classes, ": set num_classes"}));
    return classes * classes;
  }

  [[nodiscard]] std::string description() const {
    return detail::describe_metric(
        "mean_io_u", {{"num_classes", static_cast<std::int64_t>(num_classes), std::int64_t{0}},
                      {"ignore_class", detail::optional_text(ignore_class), std::string("none")}});
  }

  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;

  [[nodiscard]] double result(std::span<const double> state) const {
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

 private:
  static std::size_t side_of(std::span<const double> state) {
    return static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(state.size()))));
  }
};

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

}}  // namespace lockstep

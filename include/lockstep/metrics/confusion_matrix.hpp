// How often each class was taken for each.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/metrics/concepts.hpp"

namespace Eigen {
template <class Scalar, int Rows, int Columns, int Options, int MostRows, int MostColumns>
class Matrix;  // a caller of matrix() has the rest of Eigen
}

namespace lockstep::inline LOCKSTEP_ABI {

/// Counts of (class, predicted class), tf.math.confusion_matrix over a whole pass and all ranks.
/// The class is a label or the place of the largest target; the predicted one is the place of the
/// largest output or, for a single output, whether it is above the threshold. The logs have an
/// entry for each cell, "confusion_matrix_2_5" for a 2 that was taken for a 5; matrix() puts them
/// together.
struct ConfusionMatrix {
  double threshold = 0.5;  ///< for a model with one output
  std::string_view name = "confusion_matrix";

  [[nodiscard]] static std::size_t state_size(std::size_t outputs);
  [[nodiscard]] std::string description() const;

  /// Throws DataError for a target that is no class.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;

  /// The share of rows on the diagonal.
  [[nodiscard]] double result(std::span<const double> state) const;

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
      const Logs& logs, std::string_view key = "confusion_matrix");

 private:
  static std::size_t classes_of(std::size_t outputs) { return outputs > 1 ? outputs : 2; }
  static std::size_t side_of(std::span<const double> state);
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/metrics/confusion_matrix.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_METRIC_INSTANCES(ConfusionMatrix);
}  // namespace lockstep::inline LOCKSTEP_ABI

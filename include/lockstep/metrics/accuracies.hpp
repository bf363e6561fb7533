// Shares of right answers.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/metric_rows.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The share of samples that are classified rightly, in [0, 1]. What is right depends on the
/// widths, as when Keras is given the name "accuracy":
///
///   outputs  targets
///   1        1        binary: the output is above 0.5 exactly when the target is 1 (a logit, too,
///                     is compared with 0.5)
///   n > 1    1        sparse categorical: the index of the largest output is the target
///   n > 1    n        categorical: the largest output is where the largest target is
///
/// The first of equal outputs counts as the largest. Other widths throw DataError.
/// Use: `Accuracy{}`. Keras: `metrics=["accuracy"]`.
struct Accuracy {
  static constexpr std::string_view name = "accuracy";
  static constexpr std::size_t state_size = 2;  // right answers, samples

  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;

  [[nodiscard]] double result(std::span<const double> state) const;

 private:
  static constexpr std::size_t lanes = batch_multiple;

  template <class T>
  static void find_largest(TensorView<const T> values, std::size_t row, T (&index)[lanes]);
};

/// The share of outputs of all samples that are above the threshold exactly when their target is 1;
/// for logits, a threshold of 0 means probability 0.5.
/// Use: `BinaryAccuracy{.threshold = 0}`.
struct BinaryAccuracy {
  double threshold = 0.5;

  std::string_view name = "binary_accuracy";

  static constexpr std::size_t state_size = 2;  // right answers, answers

  [[nodiscard]] std::string description() const;

  /// Throws DataError when the widths of predictions and targets differ.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;

  [[nodiscard]] double result(std::span<const double> state) const;
};

namespace detail {

/// Throws DataError unless there is one target for each of several outputs or, where targets are
/// class labels, one for all of them.
inline void require_classified(std::string_view metric, bool are_labels, std::size_t outputs,
                               std::size_t targets) {
  are_labels ? require_labels(metric, targets) : require_same_width(metric, outputs, targets);
  require_classes(metric, outputs);
}

/// CategoricalAccuracy, or SparseCategoricalAccuracy, whose targets are class labels.
template <bool IsSparse>
struct ClassAccuracy {
  std::string_view name = IsSparse ? "sparse_categorical_accuracy" : "categorical_accuracy";

  static constexpr std::size_t state_size = Accuracy::state_size;

  /// Throws DataError for other widths.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;

  [[nodiscard]] double result(std::span<const double> state) const {
    return Accuracy{}.result(state);
  }
};

/// TopKCategoricalAccuracy, or SparseTopKCategoricalAccuracy, whose targets are class labels.
template <bool IsSparse>
struct TopKAccuracy {
  int k = 5;  ///< at least 1
  std::string_view name = standard_name;

  static constexpr std::size_t state_size = Accuracy::state_size;

  [[nodiscard]] std::string description() const {
    return describe_metric(standard_name, {{"k", std::int64_t{k}, std::int64_t{5}}});
  }
  /// Throws ConfigurationError.
  void validate() const {
    if (k < 1) throw ConfigurationError(concat({name, ": k must be at least 1, got ", k}));
  }

  /// Throws DataError for other widths, and for a label that is no class. Counts the rows whose
  /// class has fewer than k scores above its own; a score that is not finite does not.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const {
    const std::size_t classes = predictions.features();
    require_classified(class_name, IsSparse, classes, targets.features());
    for (std::size_t row = 0; row < predictions.samples(); ++row) {
      const double weight = weight_of(weights, row);
      if (weight == 0) continue;
      const std::size_t wanted =
          IsSparse ? class_of_label(targets(row, 0), classes) : place_of_largest(targets, row);
      if (wanted == classes) throw_no_class(class_name, row, classes);
      const T score = predictions(row, wanted);
      int above = 0;
      for (std::size_t c = 0; c < classes; ++c) above += predictions(row, c) > score ? 1 : 0;
      state[0] += above < k && std::isfinite(score) ? weight : 0;
      state[1] += weight;
    }
  }

  [[nodiscard]] double result(std::span<const double> state) const {
    return Accuracy{}.result(state);
  }

 private:
  static constexpr std::string_view class_name =
      IsSparse ? "SparseTopKCategoricalAccuracy" : "TopKCategoricalAccuracy";
  static constexpr std::string_view standard_name =
      IsSparse ? "sparse_top_k_categorical_accuracy" : "top_k_categorical_accuracy";
};

}  // namespace detail

/// The share of rows whose largest output is where the largest target is; of equal ones the first.
/// Use: `CategoricalAccuracy{}`.
using CategoricalAccuracy = detail::ClassAccuracy<false>;

/// The share of rows in which the index of the largest output is the target; of equal outputs the
/// first counts.
/// Use: `SparseCategoricalAccuracy{}`.
using SparseCategoricalAccuracy = detail::ClassAccuracy<true>;

/// The share of rows whose class, the place of the largest target, has one of the k highest
/// outputs. Ties at the k-th place count.
/// Use: `TopKCategoricalAccuracy{.k = 3}`.
using TopKCategoricalAccuracy = detail::TopKAccuracy<false>;

/// The share of rows whose class label has one of the k highest outputs. Ties at the k-th place
/// count.
/// Use: `SparseTopKCategoricalAccuracy{.k = 3}`.
using SparseTopKCategoricalAccuracy = detail::TopKAccuracy<true>;

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/metrics/accuracies.ipp"
#endif

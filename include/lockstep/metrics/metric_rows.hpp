// What metrics share: widths, weights, targets and the largest value of rows.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Throws DataError: "AUC: the model has 3 outputs and the data 1 target value per sample; expected
/// as many".
inline void require_same_width(std::string_view metric, std::size_t outputs, std::size_t targets) {
  if (outputs != targets)
    throw DataError(concat({metric, ": the model has ", outputs, " outputs and the data ", targets,
                            " target values per sample; expected as many"}));
}

/// Throws DataError: "TopK: the model has 1 output; expected one for each of at least two classes".
inline void require_classes(std::string_view metric, std::size_t outputs) {
  if (outputs < 2)
    throw DataError(concat({metric, ": the model has ", outputs,
                            " output; expected one for each of at least two classes"}));
}

/// Throws DataError: "TopK: the data have 3 target values per sample; expected one class label".
inline void require_labels(std::string_view metric, std::size_t targets) {
  if (targets != 1)
    throw DataError(concat({metric, ": the data have ", targets,
                            " target values per sample; expected one class label"}));
}

/// How often a row counts.
template <class T>
[[nodiscard]] double weight_of(std::span<const T> weights, std::size_t row) {
  return weights.empty() ? 1.0 : static_cast<double>(weights[row]);
}

/// The place of a row's largest value; of equal ones the first.
template <class T>
[[nodiscard]] std::size_t place_of_largest(TensorView<const T> values, std::size_t row) {
  std::size_t place = 0;
  for (std::size_t f = 1; f < values.features(); ++f)
    if (values(row, f) > values(row, place)) place = f;
  return place;
}

/// The targets of a metric that wants one for each output: as they are, or class labels as one-hot
/// vectors, where a row has one target for several outputs.
template <class T>
class TargetsOfOutputs {
 public:
  /// Throws DataError when the widths are neither.
  TargetsOfOutputs(std::string_view metric, TensorView<const T> predictions,
                   TensorView<const T> targets)
      : targets_(targets), are_labels_(targets.features() == 1 && predictions.features() > 1) {
    if (!are_labels_ && targets.features() != predictions.features())
      throw DataError(concat({metric, ": the model has ", predictions.features(),
                              " outputs and the data ", targets.features(),
                              " target values per sample; expected as many, or one class label"}));
  }

  [[nodiscard]] double operator()(std::size_t row, std::size_t output) const {
    if (!are_labels_) return static_cast<double>(targets_(row, output));
    return targets_(row, 0) == static_cast<T>(output) ? 1 : 0;
  }

 private:
  TensorView<const T> targets_;
  bool are_labels_;
};

/// A label, if it is one of `classes`; else `classes`.
template <class T>
[[nodiscard]] std::size_t class_of_label(T label, std::size_t classes) {
  if (!(label >= T(0) && label < static_cast<T>(classes))) return classes;
  const auto number = static_cast<std::size_t>(label);
  return label == static_cast<T>(number) ? number : classes;
}

/// The class of a row by its values: the place of the largest, or, for a single one, that number as
/// a label. `classes` where it is none.
template <class T>
[[nodiscard]] std::size_t class_of_row(TensorView<const T> values, std::size_t row,
                                       std::size_t classes) {
  if (values.features() == 1) return class_of_label(values(row, 0), classes);
  const std::size_t place = place_of_largest(values, row);
  return place < classes ? place : classes;
}

[[noreturn, gnu::cold]] inline void throw_no_class(std::string_view metric, std::size_t row,
                                                   std::size_t classes) {
  throw BadSample(concat({metric, ": the target of "}), row,
                  concat({" is no class; expected a whole number from 0 to ", classes - 1}));
}

/// An option of a metric and its default.
struct MetricOption {
  Option option;
  Option standard;

  template <class V>
  MetricOption(std::string_view name, V value, V by_default)
      : option(name, std::move(value)), standard(name, std::move(by_default)) {}
};

/// "precision(top_k=3)"; "precision" where nothing is changed, which is what files of the time
/// before options were described have.
[[nodiscard, gnu::cold]] std::string describe_metric(std::string_view name,
                                                     std::initializer_list<MetricOption> options);

/// The text of an option that need not be given.
template <class V>
[[nodiscard]] std::string optional_text(const V& value) {
  return value ? number_text(static_cast<double>(*value)) : std::string("none");
}

/// Adds a key to those that are taken: the name or, where that is taken, "weighted_" and the name
/// for a weighted metric, and else the name with a number ("auc_1"), as in Keras.
void add_metric_name(std::vector<std::string>& names, std::string_view name, bool is_weighted);

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/metrics/metric_rows.ipp"
#endif

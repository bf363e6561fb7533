// Hits and misses of yes-or-no answers: what precision and recall are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/metrics/describe_metric.hpp"
#include "lockstep/metrics/metric_rows.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Which answers are yes.
struct YesRule {
  std::string_view metric;
  std::optional<double> threshold{};
  std::optional<int> top_k{};
  std::optional<int> class_id{};

  [[nodiscard]] std::string description() const {
    return describe_metric(metric, {{"thresholds", optional_text(threshold), std::string("none")},
                                    {"top_k", optional_text(top_k), std::string("none")},
                                    {"class_id", optional_text(class_id), std::string("none")}});
  }
  /// Throws ConfigurationError.
  void validate() const {
    if (top_k && *top_k < 1)
      throw ConfigurationError(concat({metric, ": top_k must be at least 1, got ", *top_k}));
    if (class_id && *class_id < 0)
      throw ConfigurationError(concat({metric, ": class_id must be at least 0, got ", *class_id}));
  }

  /// Calls f(says_yes, is_yes, weight) for each answer that counts. Throws DataError when the
  /// widths do not fit.
  template <class T, class F>
  void each(TensorView<const T> predictions, TensorView<const T> targets,
            std::span<const T> weights, const F& f) const {
    const TargetsOfOutputs<T> wanted(metric, predictions, targets);
    const std::size_t outputs = predictions.features();
    if (class_id && static_cast<std::size_t>(*class_id) >= outputs)
      throw DataError(concat(
          {metric, ": class_id is ", *class_id, ", but the model has ", outputs, " outputs"}));
    const std::size_t first = class_id ? static_cast<std::size_t>(*class_id) : 0;
    const std::size_t last = class_id ? first + 1 : outputs;
    for (std::size_t row = 0; row < predictions.samples(); ++row) {
      const double weight = weight_of(weights, row);
      if (weight == 0) continue;
      for (std::size_t o = first; o < last; ++o)
        f(says_yes(predictions, row, o), wanted(row, o) != 0, weight);
    }
  }

 private:
  template <class T>
  [[nodiscard]] bool says_yes(TensorView<const T> predictions, std::size_t row,
                              std::size_t output) const {
    const T score = predictions(row, output);
    if (!top_k) return static_cast<double>(score) > threshold.value_or(0.5);
    int before = 0;  // of equal scores the first ones are among the k
    for (std::size_t o = 0; o < predictions.features(); ++o)
      before += predictions(row, o) > score || (o < output && predictions(row, o) == score) ? 1 : 0;
    return before < *top_k && (!threshold || static_cast<double>(score) > *threshold);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

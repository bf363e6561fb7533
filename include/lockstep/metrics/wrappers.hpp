// Metrics made of metrics: of some outputs, and with the sample weights.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/metrics/concepts.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The features [begin, end) of a row.
struct FeatureRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// What OutputMetric looks at.
struct OutputMetricOptions {
  FeatureRange outputs;
  FeatureRange targets;
  std::string_view name = {};  ///< default: the metric's own
};

/// A metric of a part of the outputs, with the targets of that part: for a model with Losses.
/// @code
/// OutputMetric{Accuracy{}, {.outputs = {0, 10}, .targets = {0, 1}, .name = "class_accuracy"}}
/// @endcode
/// Use: `OutputMetric{Accuracy{}, {.outputs = {0, 10}, .targets = {0, 1}}}`. Keras:
/// `metrics={"class": ["accuracy"]}`.
template <class M>
struct OutputMetric {
  M metric{};
  OutputMetricOptions of{};
  std::string_view name = of.name.empty() ? std::string_view(metric.name) : of.name;

  static constexpr bool is_weighted = [] {
    if constexpr (requires { M::is_weighted; })
      return bool{M::is_weighted};
    else
      return false;
  }();

  /// Throws ConfigurationError for outputs that the model has not.
  [[nodiscard]] std::size_t state_size(std::size_t outputs) const {
    if (of.outputs.begin >= of.outputs.end || of.outputs.end > outputs ||
        of.targets.begin >= of.targets.end)
      throw ConfigurationError(
          concat({name, ": the outputs [", of.outputs.begin, ", ", of.outputs.end,
                  ") and the targets [", of.targets.begin, ", ", of.targets.end,
                  ") of a model with ", outputs, " outputs: give ranges that exist"}));
    return detail::state_size_of(metric, of.outputs.end - of.outputs.begin);
  }
  [[nodiscard]] std::string description() const {
    std::string text = concat({"outputs ", of.outputs.begin, "-", of.outputs.end, ", targets ",
                               of.targets.begin, "-", of.targets.end, ": "});
    if constexpr (requires { metric.description(); })
      return text + metric.description();
    else
      return text + std::string(metric.name);
  }
  void validate() const {
    if constexpr (requires { metric.validate(); }) metric.validate();
  }

  /// Throws DataError when there are fewer targets.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const {
    if (of.targets.end > targets.features())
      throw DataError(concat({name, ": the targets [", of.targets.begin, ", ", of.targets.end,
                              ") of data with ", targets.features(), " target values per sample"}));
    metric.update(predictions.part(of.outputs.begin, of.outputs.end - of.outputs.begin),
                  targets.part(of.targets.begin, of.targets.end - of.targets.begin), weights,
                  state);
  }
  [[nodiscard]] double result(std::span<const double> state) const { return metric.result(state); }
  template <class Set>
  void report(std::span<const double> state, Set&& set) const {
    if constexpr (requires { metric.report(state, set); })
      metric.report(state, set);
    else
      set(std::string_view(), metric.result(state));
  }
};
template <class M>
OutputMetric(M, OutputMetricOptions) -> OutputMetric<M>;

/// What Keras's compile takes as weighted_metrics: `Weighted{Accuracy{}}` counts each row as often
/// as its sample_weight, times its class_weight, says; a metric without it counts each row once.
/// Where the metric stands without weights, too, the key in the logs begins with "weighted_".
/// Use: `Weighted{Accuracy{}}`. Keras: `weighted_metrics=["accuracy"]`.
template <class M>
struct Weighted {
  M metric{};
  std::string_view name = metric.name;

  static constexpr bool is_weighted = true;

  [[nodiscard]] std::size_t state_size(std::size_t outputs) const {
    return detail::state_size_of(metric, outputs);
  }
  [[nodiscard]] std::string description() const {
    if constexpr (requires { metric.description(); })
      return "weighted " + metric.description();
    else
      return "weighted " + std::string(metric.name);
  }
  void validate() const {
    if constexpr (requires { metric.validate(); }) metric.validate();
  }

  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const {
    metric.update(predictions, targets, weights, state);
  }
  [[nodiscard]] double result(std::span<const double> state) const { return metric.result(state); }
  template <class Set>
  void report(std::span<const double> state, Set&& set) const {
    if constexpr (requires { metric.report(state, set); })
      metric.report(state, set);
    else
      set(std::string_view(), metric.result(state));
  }
};
template <class M>
Weighted(M) -> Weighted<M>;

}}  // namespace lockstep

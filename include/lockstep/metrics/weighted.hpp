// A metric in which samples count by their weights.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/metrics/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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

}  // namespace lockstep::inline LOCKSTEP_ABI

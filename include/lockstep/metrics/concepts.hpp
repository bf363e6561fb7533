// The Metric concept.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A metric says how many numbers it needs.
template <class M>
concept SizedMetric = requires {
  { M::state_size } -> std::convertible_to<std::size_t>;
} || requires(const M& metric, std::size_t outputs) {
  { metric.state_size(outputs) } -> std::convertible_to<std::size_t>;
};

/// A metric accumulates a few numbers over samples; the sums over ranks and steps give the reported
/// figure, so that every worker reports the same one.
///
/// For a metric M and T = float or double:
///  1. `metric.name` converts to std::string_view: the key in the logs; static, or an option. (Of
///     two metrics with one name the second is given a number: "auc_1".)
///  2. `M::state_size` is a constexpr number of doubles, all zero before the first sample; or
///     `metric.state_size(outputs)` gives it, for a model with that many outputs in a row.
///  3. `metric.update(predictions, targets, weights, state)` adds the rows (samples or, where the
///     output is a Sequence, tokens) to the std::span<double> state. Row i counts weights[i] times,
///     0 where it is masked (its target may then be anything); an empty std::span<const T> of
///     weights: each counts once. The state must be additive: the state of two sets of rows is the
///     sum of their states.
///  4. `metric.result(state)`: the figure, from a std::span<const double>; 0 (not NaN) without
///     samples.
/// Optional:
///  5. `metric.description()` converts to std::string: name and options. Workers compare it before
///     they train together, and a saved state with a program; default: the name.
///  6. `metric.validate()`: throws ConfigurationError for options that make no sense; compile calls
///     it.
///  7. `metric.report(state, set)`: calls set(suffix, figure), with a std::string_view and a
///     double, for each of several figures, whose keys are the name with that suffix; in place of
///     result.
///  8. `M::is_weighted`, true: the weights are those of the samples (sample_weight, class_weight).
///     By default these do not count in metrics; see Weighted.
///
/// The replicas of a process call one metric at the same time.
template <class M, class T = float>
concept Metric =
    std::copyable<M> && SizedMetric<M> &&
    requires(const M& metric, TensorView<const T> predictions, TensorView<const T> targets,
             std::span<const T> weights, std::span<double> state, std::span<const double> sums) {
      { metric.name } -> std::convertible_to<std::string_view>;
      metric.update(predictions, targets, weights, state);
      { metric.result(sums) } -> std::convertible_to<double>;
    };

namespace detail {

/// The type of a metric's update, for instances that the library holds.
template <class T>
using MetricUpdate = void(TensorView<const T>, TensorView<const T>, std::span<const T>,
                          std::span<double>) const;

/// The number of doubles of a metric, for a model with `outputs` outputs in a row.
template <SizedMetric M>
[[nodiscard]] std::size_t state_size_of(const M& metric, [[maybe_unused]] std::size_t outputs) {
  if constexpr (requires { metric.state_size(outputs); })
    return static_cast<std::size_t>(metric.state_size(outputs));
  else
    return static_cast<std::size_t>(M::state_size);
}

}  // namespace detail

}}  // namespace lockstep

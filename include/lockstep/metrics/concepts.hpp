// The Metric concept.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A metric accumulates a few numbers over samples; the sums over ranks and steps give the reported
/// figure, so that every worker reports the same one.
///
/// For a metric M and T = float or double:
///  1. `M::name` converts to std::string_view: the key in the logs.
///  2. `M::state_size` is a constexpr number of doubles, all zero before the first sample.
///  3. `metric.update(predictions, targets, weights, state)` adds the rows (samples or, where the
///     output is a Sequence, tokens) to the std::span<double> state. Row i counts weights[i] times,
///     0 where it is masked; an empty std::span<const T> of weights: each counts once. The state
///     must be additive: the state of two sets of rows is the sum of their states.
///  4. `metric.result(state)`: the figure, from a std::span<const double>; 0 (not NaN) without
///     samples.
///
/// The replicas of a process call one metric at the same time.
template <class M, class T = float>
concept Metric =
    std::copyable<M> && requires(const M& metric, TensorView<const T> predictions, TensorView<const T> targets,
                                 std::span<const T> weights, std::span<double> state, std::span<const double> sums) {
      { M::name } -> std::convertible_to<std::string_view>;
      { M::state_size } -> std::convertible_to<std::size_t>;
      metric.update(predictions, targets, weights, state);
      { metric.result(sums) } -> std::convertible_to<double>;
    };

}  // namespace lockstep::inline LOCKSTEP_ABI

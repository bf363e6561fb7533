// compile: from a network, a strategy, a loss, an optimizer and metrics to a Model.
#pragma once

#include <concepts>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/strategies/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

/// compile, and then begin(model).
template <class Net, class T, Strategy S, class Begin, class LossType, class OptimizerType,
          class... Metrics>
auto compile_and(S& strategy, CompileOptions options, Begin begin, LossType loss,
                 OptimizerType optimizer, Metrics... metrics) {
  using In = typename Net::InputShape;
  static_assert(!std::is_void_v<In>,
                "lockstep: the first layer of a model must be its Input: write "
                "Sequential<Input<28, 28>, ...>");
  if constexpr (!std::is_void_v<In>) {
    using Out = typename Net::template Output<In>;
    static_assert(
        Loss<LossType, TokenOf<Out>, T>,
        "lockstep: the argument after the strategy must be a loss (see losses/concepts.hpp)");
    static_assert(
        Optimizer<OptimizerType, T>,
        "lockstep: the argument after the loss must be an optimizer (see optimizers/concepts.hpp)");
    static_assert(
        (Metric<Metrics, T> && ...),
        "lockstep: the arguments after the optimizer must be metrics (see metrics/concepts.hpp)");
    return Model<Net, T, S, LossType, OptimizerType, Metrics...>(
        strategy, options, std::move(loss), std::move(optimizer),
        std::tuple<Metrics...>(std::move(metrics)...), std::move(begin));
  }
}

}  // namespace detail

/// Puts a network, a strategy, a loss, an optimizer and metrics together; T is the scalar type of
/// all arrays. Waits for the other workers, checks that they run the same program
/// (ConfigurationError names the difference), and starts from the chief's seed and variables.
template <class Net, class T = float, Strategy S, class LossType, class OptimizerType,
          class... Metrics>
auto compile(S& strategy, CompileOptions options, LossType loss, OptimizerType optimizer,
             Metrics... metrics) {
  return detail::compile_and<Net, T>(
      strategy, options, [](auto&) {}, std::move(loss), std::move(optimizer),
      std::move(metrics)...);
}

template <class Net, class T = float, Strategy S, class LossType, class OptimizerType,
          class... Metrics>
  requires(!std::same_as<LossType, CompileOptions>)
auto compile(S& strategy, LossType loss, OptimizerType optimizer, Metrics... metrics) {
  return compile<Net, T>(strategy, CompileOptions{}, std::move(loss), std::move(optimizer),
                         std::move(metrics)...);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

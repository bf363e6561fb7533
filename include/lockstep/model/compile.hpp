// compile: from a network, a strategy, a loss, an optimizer and metrics to a Model.
#pragma once

#include <concepts>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/strategies/concepts.hpp"
#include "lockstep/strategies/one_device.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

/// What a program calls after compile, where it has no strategy: one of the model's own.
[[nodiscard]] inline std::unique_ptr<OneDeviceStrategy> own_strategy() {
  return std::make_unique<OneDeviceStrategy>();
}

/// compile, and then begin(model). `strategy`: a program's, or a model's own.
template <class Net, class T, Strategy S, class Begin, class LossType, class OptimizerType,
          class... Metrics>
auto compile_all(StrategyOf<S> strategy, CompileOptions options, Begin begin, LossType loss,
                 OptimizerType optimizer, Metrics... metrics) {
  static_assert(std::same_as<T, float> || std::same_as<T, double>,
                "lockstep: compile<Net, T>: the type of all arrays is float or double");
#if defined(LOCKSTEP_COMPILED) && !defined(LOCKSTEP_DOUBLE)
  static_assert(!std::same_as<T, double>,
                "lockstep: compile<Net, double>: the library holds float alone; in CMake, link "
                "lockstep::double instead of lockstep::lockstep");
#endif
  using In = typename Net::InputShape;
  static_assert(!std::is_void_v<In>,
                "lockstep: the first layer of a model must be its Input: write "
                "Sequential<Input<28, 28>, ...>");
  if constexpr (!std::is_void_v<In> && (std::same_as<T, float> || std::same_as<T, double>)) {
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
    static_assert(!std::same_as<LossType, NoLoss> || sizeof...(Metrics) == 0,
                  "lockstep: a model without a loss has no targets, and so no metrics");
    return Model<Net, T, S, LossType, OptimizerType, Metrics...>(
        std::move(strategy), options, std::move(loss), std::move(optimizer),
        std::tuple<Metrics...>(std::move(metrics)...), std::move(begin));
  }
}

/// The same with a loss, an optimizer and metrics, or without some of them.
template <class Net, class T, class S, class Begin, class... Parts>
auto compile_and(StrategyOf<S> strategy, CompileOptions options, Begin begin, Parts... parts) {
  const auto with = [&]<class... All>(All... all) {
    return compile_all<Net, T, S>(std::move(strategy), options, std::move(begin),
                                  std::move(all)...);
  };
  if constexpr (sizeof...(Parts) == 0)
    return with(NoLoss{}, NoOptimizer{});
  else if constexpr (sizeof...(Parts) > 1)
    return with(std::move(parts)...);
  else if constexpr ((Optimizer<Parts, T> && ...))
    return with(NoLoss{}, std::move(parts)...);
  else
    return with(std::move(parts)..., NoOptimizer{});
}

/// Arguments of compile behind its options.
template <class... Parts>
concept CompileParts =
    !(Strategy<std::remove_cvref_t<Parts>> || ...) && !(std::same_as<Parts, CompileOptions> || ...);

}  // namespace detail

/// Puts a network, a strategy, a loss, an optimizer and metrics together; T is the scalar type of
/// all arrays. Waits for the other workers, checks that they run the same program
/// (ConfigurationError names the difference), and starts from the chief's seed and variables.
///
/// Without a strategy, the model trains on one device. For prediction alone it needs neither loss
/// nor optimizer, and for a loop of the program's own no loss, if its steps are given one:
/// @code
/// auto model = compile<Net>(loss, optimizer, metrics...);
/// auto model = compile<Net>(strategy);
/// auto generator = compile<Net>(strategy, {.seed = 1}, Adam{});
/// @endcode
template <class Net, class T = float, Strategy S, detail::CompileParts... Parts>
auto compile(S& strategy, CompileOptions options, Parts... parts) {
  return detail::compile_and<Net, T, S>(
      strategy, options, [](auto&) {}, std::move(parts)...);
}
template <class Net, class T = float, Strategy S, detail::CompileParts... Parts>
auto compile(S& strategy, Parts... parts) {
  return detail::compile_and<Net, T, S>(
      strategy, {}, [](auto&) {}, std::move(parts)...);
}
template <class Net, class T = float, detail::CompileParts... Parts>
auto compile(CompileOptions options, Parts... parts) {
  return detail::compile_and<Net, T, OneDeviceStrategy>(
      detail::own_strategy(), options, [](auto&) {}, std::move(parts)...);
}
template <class Net, class T = float, detail::CompileParts... Parts>
auto compile(Parts... parts) {
  return detail::compile_and<Net, T, OneDeviceStrategy>(
      detail::own_strategy(), {}, [](auto&) {}, std::move(parts)...);
}

/// Of a strategy that would be gone at once, for its sentence.
template <class Net, class T = float, Strategy S, class... Rest>
auto compile(const S&&, Rest&&...) {
  static_assert(!Strategy<S>,
                "lockstep: the strategy must outlive the model: give it a name, in a line before "
                "compile");
  return 0;
}

}  // namespace lockstep::inline LOCKSTEP_ABI

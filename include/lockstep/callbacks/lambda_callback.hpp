// LambdaCallback: a callback made of functions.
#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/hooks.hpp"
#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/state.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A hook of a LambdaCallback: a function that takes the hook's arguments, the same without
/// Training&, or no arguments; or none, which does nothing.
template <class... Arguments>
class LambdaHook {
 public:
  LambdaHook() = default;
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, LambdaHook> &&
             (std::is_invocable_v<F&, Training&, Arguments...> ||
              std::is_invocable_v<F&, Arguments...> || std::is_invocable_v<F&>))
  LambdaHook(F&& function) {
    using Function = std::remove_cvref_t<F>;
    if constexpr (std::is_invocable_v<F&, Training&, Arguments...>)
      function_ = std::forward<F>(function);
    else
      function_ = [f = Function(std::forward<F>(function))](Training&,
                                                            Arguments... arguments) mutable {
        if constexpr (std::is_invocable_v<Function&, Arguments...>)
          f(std::forward<Arguments>(arguments)...);
        else
          f();
      };
  }

  explicit operator bool() const noexcept { return static_cast<bool>(function_); }
  void operator()(Training& training, Arguments... arguments) const {
    if (function_) function_(training, std::forward<Arguments>(arguments)...);
  }

 private:
  std::function<void(Training&, Arguments...)> function_;
};

/// A callback of functions, for what is too small for a class. The members are the hooks of the
/// table in callbacks/concepts.hpp, with Keras's six first; hooks that are not given cost nothing.
/// @code
/// std::vector<double> losses;
/// model.fit(data, {.epochs = 3}, LambdaCallback{
///     .on_epoch_end = [&](int, Logs& logs) { losses.push_back(logs.at("loss")); },
///     .on_train_end = [&](Training& training, Logs&) { report(training.iterations()); }});
/// @endcode
/// Which hooks there are is asked when fit begins.
/// Use: `LambdaCallback{.on_epoch_end = [](int epoch, Logs& logs) { std::printf("%d: %g\n", epoch,
/// logs.at("loss")); }}`.
struct LambdaCallback {
  /// The functions are the program's: their errors are reported with the hook's place.
  static constexpr bool calls_functions = true;

  LambdaHook<int> on_epoch_begin = {};
  LambdaHook<int, Logs&> on_epoch_end = {};
  LambdaHook<> on_train_begin = {};
  LambdaHook<Logs&> on_train_end = {};
  LambdaHook<std::int64_t> on_train_batch_begin = {};
  /// Where there is one, the workers agree after each step on whether training ends.
  LambdaHook<std::int64_t, Logs&> on_train_batch_end = {};
  LambdaHook<std::int64_t> on_train_batch_complete = {};
  LambdaHook<int> on_epoch_complete = {};
  LambdaHook<> on_preemption = {};
  LambdaHook<> on_train_abort = {};
  LambdaHook<> on_test_begin = {};
  LambdaHook<Logs&> on_test_end = {};
  LambdaHook<std::int64_t> on_test_batch_begin = {};
  LambdaHook<std::int64_t, Logs&> on_test_batch_end = {};
  LambdaHook<> on_predict_begin = {};
  LambdaHook<> on_predict_end = {};
  LambdaHook<std::int64_t> on_predict_batch_begin = {};
  LambdaHook<std::int64_t> on_predict_batch_end = {};
  /// What the functions have to remember, where a run is to be resumed.
  std::function<void(State&)> save = [](State&) {};
  std::function<void(const State&)> restore = [](const State&) {};

  [[nodiscard]] CallbackHooks::Presence hooks_in_use() const;
};

#define LOCKSTEP_DETAIL_HAS(member, ...) static_assert(detail::has_##member<LambdaCallback>());
LOCKSTEP_DETAIL_HOOKS(LOCKSTEP_DETAIL_HAS)
#undef LOCKSTEP_DETAIL_HAS

inline CallbackHooks::Presence LambdaCallback::hooks_in_use() const {
  return {.train_batch_begin = static_cast<bool>(on_train_batch_begin),
          .train_batch_end = static_cast<bool>(on_train_batch_end),
          .train_batch_complete = static_cast<bool>(on_train_batch_complete),
          .stop_in_batch = static_cast<bool>(on_train_batch_end),
          .epoch_end = static_cast<bool>(on_epoch_end),
          .train_end = static_cast<bool>(on_train_end),
          .complete_state = on_train_batch_complete || on_epoch_end || on_epoch_complete ||
                            on_preemption || on_train_end};
}

}}  // namespace lockstep

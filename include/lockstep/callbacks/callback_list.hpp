// CallbackList: the callbacks of one fit, and which of them gets which saved state.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/hooks.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/state.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// What the compiler writes for T: "my::SaveImages", "main()::StopNow".
template <class T>
[[nodiscard]] constexpr std::string_view full_type_name() {
  // g++: "... [with T = int; ...]", clang: "... [T = int]"
  constexpr std::string_view function = __PRETTY_FUNCTION__;
  constexpr std::size_t begin = function.find("T = ") + 4;
  constexpr std::size_t semicolon = function.find(';', begin);
  return function.substr(
      begin, (semicolon != std::string_view::npos ? semicolon : function.rfind(']')) - begin);
}

/// Whether T is one of this library's types.
template <class T>
inline constexpr bool is_own_type = full_type_name<T>().starts_with("lockstep::");

/// The name without what encloses the type: "SaveImages".
template <class T>
[[nodiscard]] constexpr std::string_view type_name() {
  constexpr std::string_view full = full_type_name<T>();
  std::size_t begin = 0;
  int depth = 0;  // of template arguments
  for (std::size_t i = 0; i + 1 < full.size(); ++i) {
    depth += full[i] == '<' ? 1 : full[i] == '>' ? -1 : 0;
    if (depth == 0 && full[i] == ':' && full[i + 1] == ':') begin = i + 2;
  }
  return full.substr(begin);
}

/// What tells a callback from others of its type: its optional member state_key().
template <class C>
[[nodiscard]] std::string state_key_of(const C& callback) {
  if constexpr (requires {
                  { callback.state_key() } -> std::convertible_to<std::string>;
                })
    return callback.state_key();
  else
    return {};
}

/// Collects what callbacks save, each under the name of its type and its key: not its position,
/// which changes when a callback is added.
class CallbackStates {
 public:
  /// Leaves out an empty one.
  void add(std::string_view type, std::string_view key, State state);
  [[nodiscard]] std::vector<State> take() { return std::move(states_); }

 private:
  std::vector<State> states_;
};

/// Gives saved states back.
class SavedCallbacks {
 public:
  explicit SavedCallbacks(const std::vector<State>& states);

  /// The state of the next callback with that type and key; null if there is none, so that it
  /// begins as it is. `own`: what it would save now.
  [[nodiscard]] const State* find(std::string_view type, std::string_view key, const State& own);

  /// Which states are dropped, and which callbacks begin afresh; empty when there are none.
  [[nodiscard]] std::string differences() const;

 private:
  const std::vector<State>& states_;
  std::vector<bool> taken_;
  std::string afresh_;
};

/// Whether what C throws says where it comes from: true for the library's callbacks, except one
/// that calls functions of the program.
template <class C>
inline constexpr bool says_where = is_own_type<C> && !requires { C::calls_functions; };

/// The callback that C is, or that it holds when it is a std::optional, and how f gets it.
template <class C>
struct HeldCallback {
  using type = C;
  template <class F>
  static void pass(C& callback, F& f) {
    f(callback);
  }
};
template <class C>
struct HeldCallback<std::optional<C>> {
  using type = C;
  template <class F>
  static void pass(std::optional<C>& callback, F& f) {
    if (callback) f(*callback);
  }
};
template <class C>
struct HeldCallback<const std::optional<C>> {
  using type = const C;
  template <class F>
  static void pass(const std::optional<C>& callback, F& f) {
    if (callback) f(*callback);
  }
};
template <class C>
using held_callback = typename HeldCallback<C>::type;

/// False for a callback that says that it never asks to stop.
template <class C>
consteval bool stops_training() {
  if constexpr (requires { C::stops_training; })
    return C::stops_training;
  else
    return true;
}

}  // namespace detail

/// References to the callbacks of one fit. Each hook `h(training, ...)` calls `h` of every callback
/// that has it. A callback may stand in a std::optional, and is left out while that is empty.
template <class... Callbacks>
class CallbackList final : public CallbackHooks {
  static_assert(
      (!detail::has_near_miss<detail::held_callback<Callbacks>>() && ...),
      "lockstep: a callback has a member whose name looks like a misspelled hook: the hooks are "
      "on_{train,epoch,train_batch,test,test_batch,predict,predict_batch}_{begin,end}, "
      "on_{epoch,train_batch}_complete, on_preemption and on_train_abort");
  static_assert(
      (detail::hooks_are_callable<detail::held_callback<Callbacks>>() && ...),
      "lockstep: a callback has a hook with the wrong arguments: write on_epoch_begin(Training&, "
      "int), "
      "on_epoch_end(Training&, int, Logs&), ... as the table in callbacks/concepts.hpp lists them");
  static_assert((detail::has_hook<detail::held_callback<Callbacks>>() && ...),
                "lockstep: a callback has no hook that fit would call: give it one, e.g. "
                "void on_epoch_end(lockstep::Training&, int epoch, lockstep::Logs& logs)");
  static_assert(
      (RestorableCallback<detail::held_callback<Callbacks>> && ...),
      "lockstep: a callback has a member save or restore that fit cannot call: write both, "
      "void save(lockstep::State&) const and void restore(const lockstep::State&), or rename it");

  template <class C>
  using Held = detail::held_callback<C>;
  template <class C>
  static constexpr Presence presence_of() {
    constexpr bool ends_batches = detail::callable_on_train_batch_end<C, std::int64_t, Logs&>;
    constexpr bool ends_epochs = detail::callable_on_epoch_end<C, int, Logs&>;
    constexpr bool ends_training = detail::callable_on_train_end<C, Logs&>;
    constexpr bool completes_batches = detail::callable_on_train_batch_complete<C, std::int64_t>;
    return {.train_batch_begin = detail::callable_on_train_batch_begin<C, std::int64_t>,
            .train_batch_end = ends_batches,
            .train_batch_complete = completes_batches,
            .stop_in_batch = ends_batches && detail::stops_training<C>(),
            .epoch_end = ends_epochs,
            .train_end = ends_training,
            .complete_state = ends_epochs || ends_training || completes_batches ||
                              detail::callable_on_epoch_complete<C, int> ||
                              detail::callable_on_preemption<C>};
  }
  /// The hooks of an object, which may know better than its type; an empty std::optional has none.
  template <class C>
  static Presence presence_in(const C& callback) {
    Presence has;
    const auto ask = [&](const auto& held) {
      if constexpr (requires { held.hooks_in_use(); })
        has = held.hooks_in_use();
      else
        has = presence_of<Held<C>>();
      if constexpr (requires { held.needs_whole_state(); })
        has.complete_state = has.complete_state && held.needs_whole_state();
    };
    detail::HeldCallback<const C>::pass(callback, ask);
    return has;
  }

 public:
  /// The hooks that callbacks of these types may have, also in an empty std::optional.
  [[nodiscard]] static constexpr Presence presence() {
    return (Presence{} | ... | presence_of<Held<Callbacks>>());
  }

  explicit CallbackList(Callbacks&... callbacks)
      : CallbackHooks((Presence{} | ... | presence_in(callbacks))), callbacks_(callbacks...) {}

#define LOCKSTEP_DETAIL_CALL_0(hook)                                   \
  void hook(Training& training) override {                             \
    LOCKSTEP_DETAIL_CALL(hook, (detail::callable_##hook<C>), training) \
  }
#define LOCKSTEP_DETAIL_CALL_1(hook, A)                                      \
  void hook(Training& training, A a) override {                              \
    LOCKSTEP_DETAIL_CALL(hook, (detail::callable_##hook<C, A>), training, a) \
  }
#define LOCKSTEP_DETAIL_CALL_2(hook, A, B)                                         \
  void hook(Training& training, A a, B b) override {                               \
    LOCKSTEP_DETAIL_CALL(hook, (detail::callable_##hook<C, A, B>), training, a, b) \
  }
#define LOCKSTEP_DETAIL_CALL(hook, is_callable, ...)                                       \
  each([&]<class C>(C& callback) {                                                         \
    if constexpr (is_callable) {                                                           \
      using Type = std::remove_const_t<C>;                                                 \
      static const char* const part = detail::hook_text(#hook, detail::type_name<Type>()); \
      this->call(part, detail::says_where<Type>, [&] { callback.hook(__VA_ARGS__); });     \
    }                                                                                      \
  });
#define LOCKSTEP_DETAIL_DEFINE(...)                                                 \
  LOCKSTEP_DETAIL_PICK(__VA_ARGS__, LOCKSTEP_DETAIL_CALL_2, LOCKSTEP_DETAIL_CALL_1, \
                       LOCKSTEP_DETAIL_CALL_0, unused)                              \
  (__VA_ARGS__)
  LOCKSTEP_DETAIL_HOOKS(LOCKSTEP_DETAIL_DEFINE)
#undef LOCKSTEP_DETAIL_DEFINE
#undef LOCKSTEP_DETAIL_CALL
#undef LOCKSTEP_DETAIL_CALL_0
#undef LOCKSTEP_DETAIL_CALL_1
#undef LOCKSTEP_DETAIL_CALL_2

  [[nodiscard]] std::string other_hooks() const override {
    std::string names;
    each([&]<class C>([[maybe_unused]] C& callback) {
      if constexpr (!detail::is_own_type<C>)
        if constexpr (constexpr const char* name = detail::other_hook<C>(); name != nullptr)
          names += concat({names.empty() ? "" : ", ", name, " of ", detail::type_name<C>()});
    });
    return names;
  }

  [[nodiscard]] std::vector<State> save() const override {
    detail::CallbackStates states;
    each([&]<class C>(C& callback) {
      if constexpr (detail::has_save<C>())
        states.add(detail::type_name<C>(), detail::state_key_of(callback), state_of(callback));
    });
    return states.take();
  }

  std::string restore(const std::vector<State>& states) override {
    detail::SavedCallbacks saved(states);
    each([&]<class C>(C& callback) {
      if constexpr (detail::has_restore<C>())
        if (const State* const state = saved.find(
                detail::type_name<C>(), detail::state_key_of(callback), state_of(callback)))
          callback.restore(*state);
    });
    return saved.differences();
  }

 private:
  template <class C>
  static State state_of(const C& callback) {
    State state;
    callback.save(state);
    return state;
  }

  template <class F>
  void each(F&& f) const {
    std::apply(
        [&](Callbacks&... callbacks) {
          (detail::HeldCallback<Callbacks>::pass(callbacks, f), ...);
        },
        callbacks_);
  }

  std::tuple<Callbacks&...> callbacks_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/callbacks/callback_list.ipp"
#endif

// The hooks of callbacks: their names and arguments, how they are found, and how they are called.
// They are found by name, so that a misspelled or ill-formed hook is an error, and not a callback
// that silently does nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/state.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

// The hooks, with the types of the arguments that follow Training&.
#define LOCKSTEP_DETAIL_HOOKS(X)             \
  X(on_train_begin)                          \
  X(on_train_end, Logs&)                     \
  X(on_epoch_begin, int)                     \
  X(on_epoch_end, int, Logs&)                \
  X(on_epoch_complete, int)                  \
  X(on_train_batch_begin, std::int64_t)      \
  X(on_train_batch_end, std::int64_t, Logs&) \
  X(on_train_batch_complete, std::int64_t)   \
  X(on_preemption)                           \
  X(on_train_abort)                          \
  X(on_test_begin)                           \
  X(on_test_end, Logs&)                      \
  X(on_test_batch_begin, std::int64_t)       \
  X(on_test_batch_end, std::int64_t, Logs&)  \
  X(on_predict_begin)                        \
  X(on_predict_end)                          \
  X(on_predict_batch_begin, std::int64_t)    \
  X(on_predict_batch_end, std::int64_t)

// What authors write in their place: Keras's older names, Lightning's, and the commonest slips.
#define LOCKSTEP_DETAIL_NEAR_MISSES(X) \
  X(on_epoch_start)                    \
  X(on_train_epoch_start)              \
  X(on_train_epoch_end)                \
  X(on_batch_begin)                    \
  X(on_batch_end)                      \
  X(on_train_batch_start)              \
  X(on_step_begin)                     \
  X(on_step_end)                       \
  X(on_train_start)                    \
  X(on_validation_begin)               \
  X(on_validation_end)

// Hooks of other frameworks (fastai, Ignite), which may also be unrelated functions of a callback:
// fit warns of them.
#define LOCKSTEP_DETAIL_OTHER_HOOKS(X) \
  X(before_epoch)                      \
  X(after_epoch)                       \
  X(before_batch)                      \
  X(after_batch)                       \
  X(before_step)                       \
  X(after_step)                        \
  X(before_train)                      \
  X(after_train)                       \
  X(before_fit)                        \
  X(after_fit)                         \
  X(epoch_begin)                       \
  X(epoch_end)                         \
  X(batch_begin)                       \
  X(batch_end)                         \
  X(train_begin)                       \
  X(train_end)

// All names that are looked up in a callback.
#define LOCKSTEP_DETAIL_NAMES(X) \
  LOCKSTEP_DETAIL_HOOKS(X)       \
  LOCKSTEP_DETAIL_NEAR_MISSES(X) \
  X(save)                        \
  X(restore)

struct Names {
#define LOCKSTEP_DETAIL_MEMBER(member, ...) int member;
  LOCKSTEP_DETAIL_NAMES(LOCKSTEP_DETAIL_MEMBER)
#undef LOCKSTEP_DETAIL_MEMBER
};
template <class C>
struct NameProbe : C, Names {};

// A name that NameProbe inherits from both bases is ambiguous, whatever C's member is (function,
// overload set, template). A final class cannot be a base: there, only a member that is not
// overloaded is found.
#define LOCKSTEP_DETAIL_FIND(member, ...)          \
  template <class C>                               \
  consteval bool has_##member() {                  \
    if constexpr (!std::is_class_v<C>)             \
      return false;                                \
    else if constexpr (std::is_final_v<C>)         \
      return requires { &C::member; };             \
    else                                           \
      return !requires { &NameProbe<C>::member; }; \
  }
LOCKSTEP_DETAIL_NAMES(LOCKSTEP_DETAIL_FIND)
#undef LOCKSTEP_DETAIL_FIND
#undef LOCKSTEP_DETAIL_NAMES

#define LOCKSTEP_DETAIL_CALLABLE(member, ...)                                              \
  template <class C, class... Arguments>                                                   \
  concept callable_##member = requires(C& c, Training& training, Arguments... arguments) { \
    c.member(training, arguments...);                                                      \
  };
LOCKSTEP_DETAIL_HOOKS(LOCKSTEP_DETAIL_CALLABLE)
#undef LOCKSTEP_DETAIL_CALLABLE

/// True when C has a hook and it can be called.
template <class C>
consteval bool has_hook() {
#define LOCKSTEP_DETAIL_OR(member, ...) || callable_##member<C __VA_OPT__(, ) __VA_ARGS__>
  return false LOCKSTEP_DETAIL_HOOKS(LOCKSTEP_DETAIL_OR);
#undef LOCKSTEP_DETAIL_OR
}

/// True when each hook whose name C has can be called as the training loop calls it.
template <class C>
consteval bool hooks_are_callable() {
#define LOCKSTEP_DETAIL_AND(member, ...) \
  &&(!has_##member<C>() || callable_##member<C __VA_OPT__(, ) __VA_ARGS__>)
  return true LOCKSTEP_DETAIL_HOOKS(LOCKSTEP_DETAIL_AND);
#undef LOCKSTEP_DETAIL_AND
}

/// True when C has a member that is probably meant to be a hook and is none.
template <class C>
consteval bool has_near_miss() {
#define LOCKSTEP_DETAIL_OR(member) || has_##member<C>()
  return false LOCKSTEP_DETAIL_NEAR_MISSES(LOCKSTEP_DETAIL_OR);
#undef LOCKSTEP_DETAIL_OR
}

/// Whether P, the type of a `&C::member`, points to a function, a static one too.
template <class P>
inline constexpr bool points_to_function =
    std::is_member_function_pointer_v<P> || std::is_function_v<std::remove_pointer_t<P>>;

/// The first of C's functions that bears the name of another framework's hook; null where none
/// does.
template <class C>
consteval const char* other_hook() {
#define LOCKSTEP_DETAIL_OTHER(member) \
  if (requires { requires points_to_function<decltype(&C::member)>; }) return #member;
  LOCKSTEP_DETAIL_OTHER_HOOKS(LOCKSTEP_DETAIL_OTHER)
#undef LOCKSTEP_DETAIL_OTHER
#undef LOCKSTEP_DETAIL_OTHER_HOOKS
  return nullptr;
}

/// "on_epoch_end of SaveImages", which stays until the program ends. Any thread may call it.
[[nodiscard]] const char* hook_text(std::string_view hook, std::string_view callback);

/// What a CallbackList knows about the call that it serves: shown on the board for other ranks, and
/// in the message of an exception.
class HookSite {
 public:
  /// `board`: null for none.
  void report_to(ActivityBoard* board) noexcept { board_ = board; }
  /// The hooks that follow are called here.
  void enter(const Activity& place) noexcept { place_ = place; }
  /// The last hook of the program's callbacks that threw.
  [[nodiscard]] const std::optional<Activity>& failed_hook() const noexcept { return failed_; }

 protected:
  /// Calls a hook: `part` is its hook_text, `is_ours` says that the callback is one of the
  /// library's.
  void call(const char* part, bool is_ours, FunctionRef<void()> hook);

 private:
  Activity place_;
  ActivityBoard* board_ = nullptr;
  std::optional<Activity> failed_;
};

}  // namespace detail

/// A CallbackList as the training loop sees it.
class CallbackHooks : public detail::HookSite {
 public:
  /// What the callbacks have, so that the loop can leave out what none of them needs.
  struct Presence {
    bool train_batch_begin = false;
    bool train_batch_end = false;
    bool train_batch_complete = false;
    bool stop_in_batch = false;  ///< one may ask to stop at the end of a batch
    bool epoch_end =
        false;  ///< one has something to do before the state of an epoch's end is complete
    bool train_end = false;
    bool complete_state = false;  ///< one has a hook in which a state may be saved

    [[nodiscard]] constexpr bool in_step() const noexcept {
      return train_batch_begin || train_batch_end || train_batch_complete;
    }
    /// What either has.
    [[nodiscard]] constexpr Presence operator|(const Presence& other) const noexcept {
      return {.train_batch_begin = train_batch_begin || other.train_batch_begin,
              .train_batch_end = train_batch_end || other.train_batch_end,
              .train_batch_complete = train_batch_complete || other.train_batch_complete,
              .stop_in_batch = stop_in_batch || other.stop_in_batch,
              .epoch_end = epoch_end || other.epoch_end,
              .train_end = train_end || other.train_end,
              .complete_state = complete_state || other.complete_state};
    }
  };

  CallbackHooks(const CallbackHooks&) = delete;
  CallbackHooks& operator=(const CallbackHooks&) = delete;

  [[nodiscard]] const Presence& has() const noexcept { return has_; }

// Each calls the hook of that name in every callback that has it.
#define LOCKSTEP_DETAIL_DECLARE_0(hook) virtual void hook(Training& training) = 0;
#define LOCKSTEP_DETAIL_DECLARE_1(hook, A) virtual void hook(Training& training, A a) = 0;
#define LOCKSTEP_DETAIL_DECLARE_2(hook, A, B) virtual void hook(Training& training, A a, B b) = 0;
#define LOCKSTEP_DETAIL_PICK(_1, _2, _3, name, ...) name
#define LOCKSTEP_DETAIL_DECLARE(...)                                                      \
  LOCKSTEP_DETAIL_PICK(__VA_ARGS__, LOCKSTEP_DETAIL_DECLARE_2, LOCKSTEP_DETAIL_DECLARE_1, \
                       LOCKSTEP_DETAIL_DECLARE_0, unused)                                 \
  (__VA_ARGS__)
  LOCKSTEP_DETAIL_HOOKS(LOCKSTEP_DETAIL_DECLARE)
#undef LOCKSTEP_DETAIL_DECLARE
#undef LOCKSTEP_DETAIL_DECLARE_0
#undef LOCKSTEP_DETAIL_DECLARE_1
#undef LOCKSTEP_DETAIL_DECLARE_2

  /// Functions that look like hooks and are none: "after_epoch of SaveImages"; empty for none.
  [[nodiscard]] virtual std::string other_hooks() const { return {}; }

  /// The states of those callbacks that save one, each with the callback's name in it.
  [[nodiscard]] virtual std::vector<State> save() const = 0;
  /// Each callback gets the state of its type and key. Returns in words what is dropped, as no
  /// callback is of that name, and which begin afresh; empty when there are none.
  virtual std::string restore(const std::vector<State>& states) = 0;

 protected:
  explicit CallbackHooks(const Presence& has) noexcept : has_(has) {}
  ~CallbackHooks() = default;

 private:
  Presence has_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/callbacks/hooks.ipp"
#endif

// The hooks of callbacks: their names and arguments. They are found by name, so that a misspelled
// or ill-formed hook is an error, and not a callback that silently does nothing.
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>

#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/state.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

// What authors write in their place: names of other frameworks (Keras's older ones, Lightning,
// ensmallen), and the commonest slips.
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
  X(on_training_begin)                 \
  X(on_training_end)                   \
  X(on_validation_begin)               \
  X(on_validation_end)                 \
  X(onEpochEnd)                        \
  X(EndEpoch)

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

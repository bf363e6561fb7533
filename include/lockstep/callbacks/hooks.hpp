// The hooks of callbacks: their names and arguments, found by name, so that a misspelled or ill-formed hook is an error
// and not silence.
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
  X(on_predict_end)

// What people write in their place: other libraries' names and plausible slips.
// clang-format off
#define LOCKSTEP_DETAIL_NEAR_MISSES(X)                                                                                 \
  X(on_epoch_begn) X(on_epoch_being) X(on_epoch_start) X(on_epoch_started) X(on_epoch_finish) X(on_epoch_finished)     \
  X(on_epoch_ended) X(on_epoch_ends) X(on_epoch_stop) X(on_epoch_completed) X(on_epoch) X(on_epochs_begin)             \
  X(on_epochs_end) X(on_epoch_enf) X(epoch_begin) X(epoch_end) X(onEpochBegin) X(onEpochEnd) X(OnEpochBegin)           \
  X(OnEpochEnd) X(BeginEpoch) X(EndEpoch) X(on_batch_begin) X(on_batch_end) X(on_batch_start) X(on_train_batch)        \
  X(on_train_batch_start) X(on_train_batch_begn) X(on_train_batch_finish) X(on_train_batch_completed)                  \
  X(on_training_batch_begin) X(on_training_batch_end) X(batch_begin) X(batch_end) X(on_step_begin) X(on_step_end)      \
  X(on_train) X(on_train_begn) X(on_train_start) X(on_train_finish) X(train_begin) X(train_end) X(onTrainBegin)        \
  X(onTrainEnd) X(on_training_begin) X(on_training_end) X(on_training_start) X(on_fit_begin) X(on_fit_start)           \
  X(on_fit_end) X(on_test_begn) X(on_test_start) X(on_validation_begin) X(on_validation_end) X(on_validation_start)    \
  X(on_evaluate_begin) X(on_evaluate_end) X(on_predict_start) X(on_predict_finish)
// clang-format on

// A name looked up in a class that inherits it from two bases is ambiguous, whatever C's member is (function, overload
// set, template). A final class cannot be asked that way, only for a member that is not overloaded.
#define LOCKSTEP_DETAIL_FIND(member, ...)               \
  struct Name_##member {                                \
    int member;                                         \
  };                                                    \
  template <class C>                                    \
  struct Probe_##member : C, Name_##member {};          \
  template <class C>                                    \
  consteval bool has_##member() {                       \
    if constexpr (!std::is_class_v<C>)                  \
      return false;                                     \
    else if constexpr (std::is_final_v<C>)              \
      return requires { &C::member; };                  \
    else                                                \
      return !requires { &Probe_##member<C>::member; }; \
  }
LOCKSTEP_DETAIL_HOOKS(LOCKSTEP_DETAIL_FIND)
LOCKSTEP_DETAIL_NEAR_MISSES(LOCKSTEP_DETAIL_FIND)
LOCKSTEP_DETAIL_FIND(save)
LOCKSTEP_DETAIL_FIND(restore)
#undef LOCKSTEP_DETAIL_FIND

#define LOCKSTEP_DETAIL_CALLABLE(member, ...) \
  template <class C, class... Arguments>      \
  concept callable_##member =                 \
      requires(C& c, Training& training, Arguments... arguments) { c.member(training, arguments...); };
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
#define LOCKSTEP_DETAIL_AND(member, ...) &&(!has_##member<C>() || callable_##member<C __VA_OPT__(, ) __VA_ARGS__>)
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

// CallbackHooks: the callbacks of one call, for code that does not know their types.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/callbacks/hook_site.hpp"
#include "lockstep/callbacks/hooks.hpp"
#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/state.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// What the training loop calls of a CallbackList.
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

  /// The state of every callback, in order; empty for those that save none.
  [[nodiscard]] virtual std::vector<State> save() const = 0;
  /// Throws ConfigurationError when the number of callbacks differs.
  virtual void restore(const std::vector<State>& states) = 0;

 protected:
  explicit CallbackHooks(const Presence& has) noexcept : has_(has) {}
  ~CallbackHooks() = default;

 private:
  Presence has_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

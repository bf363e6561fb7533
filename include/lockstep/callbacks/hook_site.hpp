// Where in a call the hooks of callbacks are called.
#pragma once

#include <optional>

#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/type_name.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What a CallbackList knows of the call that it serves: shown on the board for other ranks, and in
/// the message of an exception.
class HookSite {
 public:
  /// `board`: null for none.
  void report_to(ActivityBoard* board) noexcept { board_ = board; }
  /// The hooks that follow are called here.
  void enter(const Activity& place) noexcept { place_ = place; }
  /// The last hook of the program's own callbacks that threw.
  [[nodiscard]] const std::optional<Activity>& failed_hook() const noexcept { return failed_; }

 protected:
  /// Calls a hook of a callback of type C.
  template <class C, class F>
  void call(const char* part, F f) {
    Activity here = place_;
    here.part = part;
    const ActivityScope activity(board_, here);
    failed_.reset();
    if constexpr (!is_own_type<C>) failed_ = here;
    f();
    failed_.reset();
  }

 private:
  Activity place_;
  ActivityBoard* board_ = nullptr;
  std::optional<Activity> failed_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

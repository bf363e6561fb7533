// Where the hooks of a CallbackList are called, for messages.
#pragma once

#include <optional>
#include <string_view>

#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// "on_epoch_end of SaveImages", which stays until the program ends. Any thread may call it.
[[nodiscard]] const char* hook_text(std::string_view hook, std::string_view callback);

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
  /// Calls a hook: `part` is its hook_text, `is_ours` says that the callback is one of the
  /// library's.
  void call(const char* part, bool is_ours, FunctionRef<void()> hook);

 private:
  Activity place_;
  ActivityBoard* board_ = nullptr;
  std::optional<Activity> failed_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/callbacks/hook_site.ipp"
#endif

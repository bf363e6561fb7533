#pragma once

#include <deque>
#include <mutex>
#include <string>

#include "lockstep/callbacks/hooks.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE const char* hook_text(std::string_view hook, std::string_view callback) {
  static std::mutex mutex;
  static std::deque<std::string> texts;
  const std::lock_guard lock(mutex);
  return texts.emplace_back(concat({hook, " of ", callback})).c_str();
}

LOCKSTEP_INLINE void HookSite::call(const char* part, bool is_ours, FunctionRef<void()> hook) {
  Activity here = place_;
  here.part = part;
  const ActivityScope activity(board_, here);
  failed_.reset();
  if (!is_ours) failed_ = here;
  hook();
  failed_.reset();
}

}}}  // namespace lockstep::detail

#pragma once

#include <stop_token>

#include "lockstep/core/exit_report.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE ExitReport::~ExitReport() {
  say(unknown_reason, ExitCode::failure);
  innermost() = outer_;
}

LOCKSTEP_INLINE bool ExitReport::leave(Tell tell) {
  if (innermost() == nullptr) return false;
  innermost()->keep(std::move(tell));
  return true;
}

LOCKSTEP_INLINE void ExitReport::say(std::string_view reason, ExitCode code) noexcept {
  std::vector<Tell> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(left_);
  }
  for (const Tell& tell : left) tell(reason, code);
}

LOCKSTEP_INLINE void ExitReport::keep(Tell tell) {
  deadline_ = {};  // joins the thread of an earlier one
  deadline_ = std::jthread([this](const std::stop_token& stop) {
    {
      std::unique_lock lock(mutex_);
      stopped_.wait_for(lock, stop, patience, [] { return false; });
    }
    if (!stop.stop_requested()) say(unknown_reason, ExitCode::failure);
  });
  const std::lock_guard lock(mutex_);
  left_.push_back(std::move(tell));
}

LOCKSTEP_INLINE ExitReport*& ExitReport::innermost() noexcept {
  thread_local ExitReport* report = nullptr;
  return report;
}

}}}  // namespace lockstep::detail

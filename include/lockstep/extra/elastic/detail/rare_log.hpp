// Log lines about what comes again and again.
#pragma once

#include <chrono>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// One line in five seconds: a process that is turned away calls again ten times in one.
class RareLog {
 public:
  using Clock = std::chrono::steady_clock;

  void line(const std::string& text, Clock::time_point now = Clock::now()) {
    if (now < next_) return;
    next_ = now + std::chrono::seconds(5);
    log_line(text);
  }

 private:
  Clock::time_point next_{};
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

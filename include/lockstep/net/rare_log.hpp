// Log lines about what comes again and again.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A process that waits says so each time this interval has passed.
inline constexpr std::chrono::seconds report_interval{5};

/// "30 s", "1500 ms"
[[nodiscard, gnu::cold]] inline std::string duration_text(std::chrono::milliseconds time) {
  return time.count() % 1000 == 0 ? concat({time.count() / 1000, " s"})
                                  : concat({time.count(), " ms"});
}

class RareLog {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RareLog(Clock::time_point now = Clock::now()) noexcept { restart(now); }

  /// Whether a report is due. The next one is an interval later.
  [[nodiscard]] bool is_due(Clock::time_point now = Clock::now()) noexcept {
    if (now < due_) return false;
    restart(now);
    return true;
  }
  [[nodiscard]] Clock::time_point due() const noexcept { return due_; }
  /// The next report is due an interval after `now`.
  void restart(Clock::time_point now) noexcept { due_ = now + report_interval; }
  /// The next report is due at once.
  void hasten() noexcept { due_ = {}; }

  /// One line a second, and the same one each five: a process that is turned away calls again ten
  /// times in one.
  void line(std::string text, LogLevel level = LogLevel::info,
            Clock::time_point now = Clock::now()) {
    if (now < said_ + (text == last_ ? report_interval : std::chrono::seconds(1))) return;
    said_ = now;
    last_ = std::move(text);
    log_line(last_, level);
  }
  /// `host` has called, and is turned away: `problem` ends a sentence about it.
  void turned_away(std::string_view before, std::string_view host, std::string_view problem,
                   Clock::time_point now = Clock::now()) {
    line(concat({before, "a process at ", host, " ", problem, "; it is turned away"}),
         LogLevel::warning, now);
  }

 private:
  Clock::time_point due_;
  Clock::time_point said_{};
  std::string last_;
};

}}}  // namespace lockstep::detail

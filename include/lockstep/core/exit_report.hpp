// What a process tells its peers when an exception ends it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A destructor that runs because of an exception cannot learn its message. If one of these objects
/// lives further up on the same thread's stack, the destructor can leave the report to its peers to
/// that object, whose owner catches the exception and so knows the message. If the program handles
/// the exception itself, the peers are told two seconds later, without the message.
class ExitReport {
 public:
  /// Tells why this process ends. It is called once, and must not throw.
  using Tell = std::function<void(std::string_view reason, ExitCode code)>;

  ExitReport() noexcept : outer_(std::exchange(innermost(), this)) {}
  ExitReport(const ExitReport&) = delete;
  ExitReport& operator=(const ExitReport&) = delete;
  ~ExitReport() {
    say(unknown_reason, ExitCode::failure);
    innermost() = outer_;
  }

  /// False if no such object exists. Throws std::system_error if the system has no thread left.
  [[nodiscard]] static bool leave(Tell tell) {
    if (innermost() == nullptr) return false;
    innermost()->keep(std::move(tell));
    return true;
  }
  /// Calls the report that was left on this thread, if any: the program has handled its exception
  /// and goes on.
  static void say_now() noexcept {
    if (innermost() != nullptr) innermost()->say(unknown_reason, ExitCode::failure);
  }

  /// Calls the report. Any thread may do this.
  void say(std::string_view reason, ExitCode code) noexcept {
    std::vector<Tell> left;
    {
      const std::lock_guard lock(mutex_);
      left.swap(left_);
    }
    for (const Tell& tell : left) tell(reason, code);
  }

 private:
  static constexpr std::string_view unknown_reason = "ended because of an exception";
  static constexpr std::chrono::seconds patience{2};

  void keep(Tell tell) {
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

  static ExitReport*& innermost() noexcept {
    thread_local ExitReport* report = nullptr;
    return report;
  }

  ExitReport* outer_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::vector<Tell> left_;
  std::jthread deadline_;  // last: it uses the others
};

}}}  // namespace lockstep::detail

// Notices work that does not end, without the work's help.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/thread.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// For calls into a library that blocks and has no deadlines: a thread that calls `late(what)` when
/// what was begun has not ended within `limit` (or up to a quarter of it later).
class Watchdog {
 public:
  using Late = std::function<void(const char* what)>;

  Watchdog(std::chrono::milliseconds limit, Late late)
      : limit_(limit),
        late_(std::move(late)),
        thread_(start_thread<std::jthread>("a watchdog",
                                           [this](const std::stop_token& stop) { watch(stop); })) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Starts the clock, or starts it again. `what` must live as long as this.
  void begin(const char* what) noexcept {
    what_.store(what, std::memory_order_relaxed);
    since_.store(now(), std::memory_order_release);
  }
  void end() noexcept { since_.store(idle, std::memory_order_release); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::rep idle = -1;

  static Clock::rep now() noexcept { return Clock::now().time_since_epoch().count(); }

  void watch(const std::stop_token& stop) {
    const std::chrono::milliseconds period =
        std::clamp(limit_ / 4, std::chrono::milliseconds(1), longest_period);
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      const Clock::rep since = since_.load(std::memory_order_acquire);
      if (since != idle && Clock::duration(now() - since) > limit_) {
        end();
        late_(what_.load(std::memory_order_relaxed));
      }
      stopped_.wait_for(lock, stop, period, [] { return false; });
    }
  }

  static constexpr std::chrono::milliseconds longest_period = std::chrono::seconds(1);

  const std::chrono::milliseconds limit_;
  const Late late_;
  std::atomic<const char*> what_{nullptr};
  std::atomic<Clock::rep> since_{idle};
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // last: it uses the others
};

}}  // namespace lockstep

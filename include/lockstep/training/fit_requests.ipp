#pragma once

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <utility>

#include "lockstep/training/fit_requests.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// One for the process, as its signal handlers are.
struct PreemptionHandlers {
  static constexpr std::array signals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};

  std::mutex mutex;
  int users = 0;
  std::array<struct sigaction, signals.size()> former{};
  std::atomic<int> received = 0;
  std::atomic<std::int64_t> received_at = 0;  // monotonic, in ms; 0: nothing has come
  std::atomic<bool> answered = false;
  static_assert(std::atomic<std::int64_t>::is_always_lock_free, "signal handlers may use it");

  static constexpr std::int64_t same_signal_ms = 1000;

  static ExitCode code_of(int signal) noexcept {
    return signal == SIGINT ? ExitCode::interrupted : ExitCode::terminated;
  }

  static PreemptionHandlers& instance() noexcept {
    static PreemptionHandlers handlers;
    return handlers;
  }

  void install() noexcept {
    struct sigaction action {};
    action.sa_handler = [](int signal) {
      timespec time{};
      ::clock_gettime(CLOCK_MONOTONIC, &time);  // (fit for signal handlers)
      const std::int64_t now = std::int64_t{1000} * time.tv_sec + time.tv_nsec / 1'000'000 + 1;
      std::int64_t first = 0;
      if (instance().received_at.compare_exchange_strong(first, now))
        instance().received = signal;
      else if (now - first >= same_signal_ms)
        ::_exit(static_cast<int>(code_of(signal)));
    };
    action.sa_flags = SA_RESTART;
    for (std::size_t i = 0; i < signals.size(); ++i) {
      ::sigaction(signals[i], nullptr, &former[i]);
      const bool is_free =
          signals[i] == SIGUSR1 ? former[i].sa_handler == SIG_DFL : former[i].sa_handler != SIG_IGN;
      if (is_free) ::sigaction(signals[i], &action, nullptr);
    }
  }

  void restore() noexcept {
    for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &former[i], nullptr);
    const int signal = received.exchange(0);
    received_at = 0;
    if (!answered.exchange(false) && signal != 0) ::raise(signal);
  }
};

LOCKSTEP_INLINE PreemptionSignals::PreemptionSignals() {
  PreemptionHandlers& handlers = PreemptionHandlers::instance();
  const std::lock_guard lock(handlers.mutex);
  if (handlers.users++ == 0) handlers.install();
}

LOCKSTEP_INLINE PreemptionSignals::~PreemptionSignals() {
  PreemptionHandlers& handlers = PreemptionHandlers::instance();
  const std::lock_guard lock(handlers.mutex);
  if (--handlers.users == 0) handlers.restore();
}

LOCKSTEP_INLINE ExitCode PreemptionSignals::received() const noexcept {
  const int signal = PreemptionHandlers::instance().received.load(std::memory_order_relaxed);
  return signal == 0 ? ExitCode::success : PreemptionHandlers::code_of(signal);
}

LOCKSTEP_INLINE const char* PreemptionSignals::name(ExitCode code) const noexcept {
  if (code == ExitCode::interrupted) return "SIGINT";
  const int signal = PreemptionHandlers::instance().received.load(std::memory_order_relaxed);
  return signal == SIGUSR1 ? "SIGUSR1" : signal == SIGHUP ? "SIGHUP" : "SIGTERM";
}

LOCKSTEP_INLINE void PreemptionSignals::answered() noexcept {
  PreemptionHandlers::instance().answered = true;
}

}}}  // namespace lockstep::detail

// Calls the other processes of an elastic cluster, on a thread of its own.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/collectives/address.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/signal_mask.hpp"
#include "lockstep/core/thread.hpp"
#include "lockstep/core/wake_pipe.hpp"
#include "lockstep/net/socket.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Names are looked up and ports are called without end, while the thread that talks goes on. All
/// calls from any thread.
class FormationCallers {
 public:
  using Clock = std::chrono::steady_clock;
  struct Reached {
    int slot;
    Descriptor socket;
  };

  /// `news` is woken for each that is reached.
  FormationCallers(std::vector<std::string> addresses, WakePipe& news)
      : addresses_(std::move(addresses)), news_(news), wanted_(addresses_.size()) {
    const SignalMask mask;
    thread_ = start_thread("calls to the other workers", [this] { call(); });
  }
  FormationCallers(const FormationCallers&) = delete;
  FormationCallers& operator=(const FormationCallers&) = delete;
  ~FormationCallers() {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  /// Which slots to call, from now on.
  void want(std::vector<char> slots) {
    const std::lock_guard lock(mutex_);
    if (slots == wanted_) return;
    wanted_ = std::move(slots);
    changed_.notify_all();
  }
  [[nodiscard]] std::vector<Reached> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(reached_, {});
  }

 private:
  static constexpr std::chrono::milliseconds patience{500}, interval{100};
  static constexpr std::chrono::seconds rest{3};  // after a call without an answer

  void call() {
    std::vector<Clock::time_point> next(addresses_.size());
    std::unique_lock lock(mutex_);
    while (!stops_) {
      for (std::size_t slot = 0; slot < addresses_.size() && !stops_; ++slot) {
        if (wanted_[slot] == 0 || Clock::now() < next[slot]) continue;
        lock.unlock();
        const auto begin = Clock::now();
        Descriptor socket = call(addresses_[slot]);
        const bool was_silent = !socket.is_open() && Clock::now() - begin >= patience;
        // (What is reached may be another program, which hangs up at once.)
        next[slot] = Clock::now() + (was_silent ? rest : interval);
        lock.lock();
        if (!socket.is_open() || wanted_[slot] == 0) continue;
        wanted_[slot] = 0;
        reached_.push_back({static_cast<int>(slot), std::move(socket)});
        news_.wake();
      }
      const bool is_idle = std::ranges::all_of(wanted_, [](char each) { return each == 0; });
      if (stops_) return;
      if (is_idle)
        changed_.wait(lock);
      else
        changed_.wait_for(lock, interval);
    }
  }

  [[nodiscard]] static Descriptor call(const std::string& text) {
    std::string why;
    const Address address = parse_address(text);
    return call_host(address.host, address.port, patience, Clock::time_point::max(), why);
  }

  const std::vector<std::string> addresses_;
  WakePipe& news_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<char> wanted_;  // by slot
  std::vector<Reached> reached_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

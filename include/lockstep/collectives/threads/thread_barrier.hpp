// A barrier for threads that spins briefly, then sleeps, and that can be broken.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/cores.hpp"
#include "lockstep/net/rare_log.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// In the body of a loop that waits for another thread: leaves more of the core to it.
inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

}  // namespace detail

/// A reference to a callable, which is told every five seconds how long a wait has lasted.
class WaitListener {
 public:
  WaitListener() = default;
  template <class F>
  WaitListener(const F& f) noexcept  // NOLINT(google-explicit-constructor)
      : context_(&f), call_([](const void* context, std::chrono::milliseconds waited) {
          (*static_cast<const F*>(context))(waited);
        }) {}
  void operator()(std::chrono::milliseconds waited) const {
    if (call_ != nullptr) call_(context_, waited);
  }

 private:
  const void* context_ = nullptr;
  void (*call_)(const void* context, std::chrono::milliseconds waited) = nullptr;
};

/// A barrier for a fixed number of threads. Unlike std::barrier its waits are bounded, and it can
/// be broken.
class ThreadBarrier {
 public:
  enum class Outcome { released, broken, timed_out };
  using Duration = std::chrono::milliseconds;

  /// `threads_on_host`: how many threads compete for this machine's cores. Spinning for about 50 us
  /// saves the cost of waking up (some 5 us), but when there are more threads than cores it steals
  /// the core from the one that is awaited.
  ThreadBarrier(int size, int threads_on_host)
      : size_(size),
        spins_(threads_on_host <= usable_cores()),
        arrivals_(std::make_unique<Arrival[]>(static_cast<std::size_t>(size))) {}

  /// Waits until every thread has come. All threads, or none, see `released`; `broken` and
  /// `timed_out` leave the barrier broken for all. While *patient is true, the time does not count.
  Outcome arrive_and_wait(int rank, Duration timeout, const std::atomic<bool>* patient = nullptr,
                          const WaitListener& listener = {}) {
    const std::uint64_t before = state_.load(std::memory_order_relaxed);
    if ((before & broken_bit) != 0) return Outcome::broken;
    if (arrive(rank)) {
      std::uint64_t expected = before;
      if (!state_.compare_exchange_strong(expected, before + next)) return Outcome::broken;
      wake();
      return Outcome::released;
    }
    // (One that departs looks at the arrivals afterwards: one of the two sees the other.)
    if (departed_.load() >= 0) break_wait(before);
    if (spin(before)) return outcome(before);

    std::unique_lock lock(mutex_);
    ++sleepers_;
    auto begin = Clock::now();
    detail::RareLog reports(begin);
    while (state_.load() == before) {
      if (sleep_.wait_until(lock, std::min(begin + timeout, reports.due())) !=
          std::cv_status::timeout)
        continue;
      const auto now = Clock::now();
      if (patient != nullptr && patient->load()) {
        reports.restart(begin = now);
        continue;
      }
      if (now < begin + timeout) {
        if (!reports.is_due(now)) continue;
        lock.unlock();
        listener(std::chrono::duration_cast<Duration>(now - begin));
        lock.lock();
        continue;
      }
      std::uint64_t expected = before;
      if (state_.compare_exchange_strong(expected, before | broken_bit)) {
        --sleepers_;
        sleep_.notify_all();
        return Outcome::timed_out;
      }
    }
    --sleepers_;
    return outcome(before);
  }

  /// For a wait that nothing may cut short, because the others still use this thread's memory. All
  /// of them are known to be on their way.
  void arrive_and_wait_always(int rank) {
    const std::uint64_t before = state_.load(std::memory_order_relaxed) & ~broken_bit;
    if (arrive(rank)) {
      state_.fetch_add(next);
      wake();
      return;
    }
    if (spin(before)) return;
    std::unique_lock lock(mutex_);
    ++sleepers_;
    while ((state_.load() & ~broken_bit) == before) sleep_.wait(lock);
    --sleepers_;
  }

  /// Makes all present and later waits return `broken`. Any thread may call it.
  void break_all() noexcept {
    state_.fetch_or(broken_bit);
    wake();
  }

  [[nodiscard]] bool is_broken() const noexcept { return (state_.load() & broken_bit) != 0; }

  /// This thread comes to no wait until assemble(): one in which others wait for it is broken.
  void depart(int rank) noexcept {
    int none = -1;
    departed_.compare_exchange_strong(none, rank);
    if (first_arrived() >= 0) break_wait(state_.load() & ~broken_bit);
  }
  /// All threads may come again. None may be waiting.
  void assemble() noexcept { departed_.store(-1); }
  /// A rank that has departed, -1 when there is none.
  [[nodiscard]] int departed() const noexcept { return departed_.load(); }

  /// Makes a broken barrier new. No thread may be waiting.
  void reset() noexcept {
    const std::uint64_t generation = (state_.load() + next) & ~broken_bit;
    arrived_.store(0);
    departed_.store(-1);
    state_.store(generation);
  }

  /// The lowest rank that has not come to the present wait, -1 when there is none.
  [[nodiscard]] int first_missing() const noexcept { return first_that(false); }
  /// The lowest rank that has.
  [[nodiscard]] int first_arrived() const noexcept { return first_that(true); }

 private:
  using Clock = std::chrono::steady_clock;
  // The generation and whether the barrier is broken are one word, so that "released" and "broken"
  // exclude each other.
  static constexpr std::uint64_t broken_bit = 1;
  static constexpr std::uint64_t next = 2;

  struct alignas(cache_line) Arrival {
    std::atomic<std::uint64_t> next_state{0};
  };

  [[nodiscard]] int first_that(bool has_arrived) const noexcept {
    const std::uint64_t generation = state_.load() & ~broken_bit;
    for (int rank = 0; rank < size_; ++rank)
      if ((arrivals_[static_cast<std::size_t>(rank)].next_state.load() == generation + next) ==
          has_arrived)
        return rank;
    return -1;
  }

  // Returns whether this thread is the last to come.
  bool arrive(int rank) noexcept {
    arrivals_[static_cast<std::size_t>(rank)].next_state.store(
        (state_.load(std::memory_order_relaxed) & ~broken_bit) + next);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 != size_) return false;
    arrived_.store(0, std::memory_order_relaxed);
    return true;
  }

  bool spin(std::uint64_t before) const noexcept {
    if (!spins_) return false;
    const auto end = Clock::now() + std::chrono::microseconds(50);
    do {
      for (int i = 0; i < 32; ++i) {
        if (state_.load(std::memory_order_acquire) >> 1 != before >> 1) return true;
        detail::relax();
      }
    } while (Clock::now() < end);
    return false;
  }

  // Unless all have come to that wait.
  void break_wait(std::uint64_t before) noexcept {
    if (state_.compare_exchange_strong(before, before | broken_bit)) wake();
  }

  [[nodiscard]] Outcome outcome(std::uint64_t before) const noexcept {
    return state_.load() >> 1 != before >> 1 ? Outcome::released : Outcome::broken;
  }

  // The state is stored before the sleepers are counted, and a sleeper counts itself before it
  // looks at the state: one of the two sees the other.
  void wake() noexcept {
    if (sleepers_.load() == 0) return;
    { const std::lock_guard lock(mutex_); }
    sleep_.notify_all();
  }

  const int size_;
  const bool spins_;
  alignas(cache_line) std::atomic<std::uint64_t> state_{0};
  alignas(cache_line) std::atomic<int> arrived_{0};
  std::unique_ptr<Arrival[]> arrivals_;
  std::mutex mutex_;
  std::condition_variable sleep_;
  std::atomic<int> sleepers_{0};
  std::atomic<int> departed_{-1};
};

}}  // namespace lockstep

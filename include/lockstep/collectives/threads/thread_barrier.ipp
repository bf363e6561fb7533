#pragma once

#include <algorithm>

#include "lockstep/collectives/threads/thread_barrier.hpp"
#include "lockstep/net/rare_log.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE ThreadBarrier::Outcome ThreadBarrier::arrive_and_wait(
    int rank, Duration timeout, const std::atomic<bool>* patient, const WaitListener& listener) {
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

LOCKSTEP_INLINE void ThreadBarrier::arrive_and_wait_always(int rank) {
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

LOCKSTEP_INLINE void ThreadBarrier::depart(int rank) noexcept {
  int none = -1;
  departed_.compare_exchange_strong(none, rank);
  if (first_arrived() >= 0) break_wait(state_.load() & ~broken_bit);
}

LOCKSTEP_INLINE int ThreadBarrier::first_that(bool has_arrived) const noexcept {
  const std::uint64_t generation = state_.load() & ~broken_bit;
  for (int rank = 0; rank < size_; ++rank)
    if ((arrivals_[static_cast<std::size_t>(rank)].next_state.load() == generation + next) ==
        has_arrived)
      return rank;
  return -1;
}

LOCKSTEP_INLINE bool ThreadBarrier::arrive(int rank) noexcept {
  arrivals_[static_cast<std::size_t>(rank)].next_state.store(
      (state_.load(std::memory_order_relaxed) & ~broken_bit) + next);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 != size_) return false;
  arrived_.store(0, std::memory_order_relaxed);
  return true;
}

LOCKSTEP_INLINE bool ThreadBarrier::spin(std::uint64_t before) const noexcept {
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

LOCKSTEP_INLINE void ThreadBarrier::wake() noexcept {
  if (sleepers_.load() == 0) return;
  { const std::lock_guard lock(mutex_); }
  sleep_.notify_all();
}

}}  // namespace lockstep

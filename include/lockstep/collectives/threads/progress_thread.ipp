#pragma once

#include <utility>

#include "lockstep/collectives/threads/progress_thread.hpp"
#include "lockstep/core/thread.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE ProgressThread::~ProgressThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  posted_.notify_one();
  thread_.join();
}

LOCKSTEP_INLINE void ProgressThread::post(const Job& job) {
  if (!thread_.joinable())
    thread_ = start_thread("sums that overlap with backward", [this] { work(); });
  {
    const std::lock_guard lock(mutex_);
    if (failure_ != nullptr) return;
    jobs_.push_back(job);
  }
  posted_.notify_one();
}

LOCKSTEP_INLINE void ProgressThread::wait() {
  std::unique_lock lock(mutex_);
  await_idle(lock);
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

LOCKSTEP_INLINE void ProgressThread::drain() noexcept {
  std::unique_lock lock(mutex_);
  await_idle(lock);
  failure_ = nullptr;
}

LOCKSTEP_INLINE void ProgressThread::await_idle(std::unique_lock<std::mutex>& lock) {
  idle_.wait(lock, [this] { return jobs_.empty(); });
}

LOCKSTEP_INLINE void ProgressThread::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    posted_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    const Job job = jobs_[next_++];
    lock.unlock();
    std::exception_ptr failure;
    try {
      job.function(job.self, job.values);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure != nullptr) failure_ = std::move(failure);
    if (failure_ == nullptr && next_ < jobs_.size()) continue;
    jobs_.clear();
    next_ = 0;
    idle_.notify_one();
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#pragma once

#include <algorithm>
#include <chrono>
#include <exception>

#include "lockstep/collectives/threads/thread_barrier.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/thread.hpp"
#include "lockstep/strategies/replica_threads.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

// One call of run(), on the first thread's stack.
struct ReplicaThreads::Run {
  ReplicaThreads& threads;
  FunctionRef<void(int)> f;
  FunctionRef<void(int, std::string_view, ExitCode)> abort;
  Run* outer = nullptr;  // the run in whose lead() this one was called
  int working = 0;       // threads other than the first that have not returned
  int waiting = 0;       // those of them that wait in lead()
  unsigned leads = 0;    // that have ended
  bool is_leading = false;
  bool is_broken = false;  // a thread has failed
  std::exception_ptr failure = nullptr;
};

// Thrown to leave a run when another thread has failed.
struct ReplicaThreads::Abandoned {};

LOCKSTEP_INLINE int ReplicaThreads::count(int requested, int workers_on_host) {
  if (requested < 0 || requested > 1024)
    throw ConfigurationError(
        concat({"replicas must be 0 (one for each core) to 1024, got ", requested}));
  if (requested > 0) return requested;
  return std::max(1, usable_cores() / workers_on_host);
}

LOCKSTEP_INLINE ReservedCores reserve_cores(int count, Pinning pinning) {
  if (pinning == Pinning::off ||
      (pinning == Pinning::automatic && (!has_own_cpuset() || count > usable_cores())))
    return {};
  ReservedCores reserved(count);
  if (reserved.cores().empty() && pinning == Pinning::on)
    log_line(concat({"Pinning::on: the replicas are not pinned: ", count,
                     " of them need a core each, and of the ", allowed_cores().size(),
                     " that this process may use other processes have reserved too many"}));
  return reserved;
}

LOCKSTEP_INLINE int ReplicaThreads::core_of(int i) const noexcept {
  return cores().empty() ? -1 : cores()[static_cast<std::size_t>(i)];
}

LOCKSTEP_INLINE ReplicaThreads::ReplicaThreads(int size, int threads_on_host, Pinning pinning)
    : size_(size),
      spins_(std::max(size, threads_on_host) <= usable_cores()),
      cores_(reserve_cores(size, pinning)),
      runs_seen_(static_cast<std::size_t>(size)) {
  threads_.reserve(static_cast<std::size_t>(size - 1));
  try {
    for (int i = 1; i < size; ++i)
      threads_.push_back(
          start_thread(concat({"replica ", i, " of ", size}), [this, i] { work(i); }));
  } catch (...) {
    stop();
    throw;
  }
}

LOCKSTEP_INLINE ReplicaThreads::~ReplicaThreads() { stop(); }

LOCKSTEP_INLINE bool ReplicaThreads::is_running() const {
  const std::lock_guard lock(mutex_);
  return run_ != nullptr;
}

LOCKSTEP_INLINE void ReplicaThreads::run(FunctionRef<void(int)> f,
                                         FunctionRef<void(int, std::string_view, ExitCode)> abort,
                                         FunctionRef<void()> reset) {
  Run mine{.threads = *this, .f = f, .abort = abort, .working = size_ - 1};
  enter(mine);
  if (mine.outer == nullptr) reset();
  begin();
  {
    const PinnedThread pinned(core_of(0));
    call(mine, 0);
  }
  end(mine);
  if (mine.failure == nullptr) return leave(mine);
  reset();
  leave(mine);
  std::rethrow_exception(mine.failure);
}

LOCKSTEP_INLINE void ReplicaThreads::call(Run& run, int i) {
  try {
    run.f(i);
  } catch (const Abandoned&) {  // a consequence of what another thread has thrown
  } catch (const Error& error) {
    run.threads.failed(run, i, error.what(), error.exit_code());
  } catch (const std::exception& error) {
    run.threads.failed(run, i, error.what(), ExitCode::failure);
  } catch (...) {
    run.threads.failed(run, i, "an exception that is no std::exception", ExitCode::failure);
  }
}

LOCKSTEP_INLINE void ReplicaThreads::lead(int i, FunctionRef<void()> f) {
  if (i != 0) return follow(i);
  Run& run = begin_lead();
  struct Lead {
    ReplicaThreads& threads;
    Run& run;
    bool is_broken = true;
    ~Lead() { threads.end_lead(run, is_broken); }
  } lead{*this, run};
  f();
  lead.is_broken = false;
}

LOCKSTEP_INLINE void ReplicaThreads::enter(Run& run) {
  const std::lock_guard lock(mutex_);
  const std::thread::id caller = std::this_thread::get_id();
  if (run_ != nullptr && (caller != first_thread_ || !run_->is_leading))
    throw Error(
        "the replicas of this strategy are at work and cannot take part in another call now: a "
        "model cannot be used in on_test_batch_begin, on_test_batch_end or a function of the "
        "dataset, nor by another thread meanwhile; use it in on_test_end, on_epoch_end or another "
        "hook");
  run.outer = run_;
  run_ = &run;
  first_thread_ = caller;
}

LOCKSTEP_INLINE void ReplicaThreads::begin() {
  {
    const std::lock_guard lock(mutex_);
    ++runs_;
    changes_.fetch_add(1, std::memory_order_release);
  }
  others_.notify_all();
}

LOCKSTEP_INLINE void ReplicaThreads::end(const Run& run) {
  std::unique_lock lock(mutex_);
  first_.wait(lock, [&] { return run.working == 0; });
}

LOCKSTEP_INLINE void ReplicaThreads::leave(const Run& run) {
  const std::lock_guard lock(mutex_);
  run_ = run.outer;
}

LOCKSTEP_INLINE ReplicaThreads::Run& ReplicaThreads::begin_lead() {
  std::unique_lock lock(mutex_);
  Run& run = innermost();
  await(lock, first_, [&] { return run.waiting == size_ - 1 || run.is_broken; });
  if (run.is_broken) throw Abandoned{};
  run.is_leading = true;
  return run;
}

LOCKSTEP_INLINE void ReplicaThreads::end_lead(Run& run, bool is_broken) noexcept {
  {
    const std::lock_guard lock(mutex_);
    run.is_leading = false;
    run.is_broken |= is_broken;
    run.waiting = 0;
    ++run.leads;
    changes_.fetch_add(1, std::memory_order_release);
  }
  others_.notify_all();
}

LOCKSTEP_INLINE void ReplicaThreads::follow(int i) {
  std::unique_lock lock(mutex_);
  Run& run = innermost();
  const unsigned leads = run.leads;
  if (++run.waiting == size_ - 1) {
    changes_.fetch_add(1, std::memory_order_release);
    first_.notify_one();
  }
  for (;;) {
    await(lock, others_, [&] { return is_new(i) || run.leads != leads || run.is_broken; });
    if (is_new(i)) {
      take_part(i, lock);
      continue;
    }
    if (run.is_broken) throw Abandoned{};
    return;
  }
}

// The run that a thread is in while it does not wait. Call under the lock.
LOCKSTEP_INLINE ReplicaThreads::Run& ReplicaThreads::innermost() const {
  if (run_ == nullptr) throw Error("ReplicaThreads: lead() is for the function that run() calls");
  return *run_;
}

// Whether there is a run that thread i has not taken part in. Call under the lock.
LOCKSTEP_INLINE bool ReplicaThreads::is_new(int i) const noexcept {
  return runs_seen_[static_cast<std::size_t>(i)] != runs_;
}

LOCKSTEP_INLINE void ReplicaThreads::take_part(int i, std::unique_lock<std::mutex>& lock) {
  runs_seen_[static_cast<std::size_t>(i)] = runs_;
  Run& run = *run_;
  lock.unlock();
  call(run, i);
  lock.lock();
  if (--run.working == 0) first_.notify_one();
}

LOCKSTEP_INLINE void ReplicaThreads::failed(Run& run, int i, std::string_view what, ExitCode code) {
  {
    const std::lock_guard lock(mutex_);
    if (run.failure != nullptr) return;  // this failure is a consequence
    run.failure = std::current_exception();
  }
  run.abort(i, what, code);
  {
    const std::lock_guard lock(mutex_);
    run.is_broken = true;
    changes_.fetch_add(1, std::memory_order_release);
  }
  first_.notify_one();
  others_.notify_all();
}

// Waits under the lock, the first 50 us without sleeping if there are cores for it: waking up takes
// a tenth of that.
LOCKSTEP_INLINE void ReplicaThreads::await(std::unique_lock<std::mutex>& lock,
                                           std::condition_variable& sleep,
                                           FunctionRef<bool()> has_come) {
  using Clock = std::chrono::steady_clock;
  if (spins_ && !has_come()) {
    const auto end = Clock::now() + std::chrono::microseconds(50);
    bool in_time = true;
    while (in_time && !has_come()) {
      const unsigned before = changes_.load(std::memory_order_acquire);
      lock.unlock();
      while (changes_.load(std::memory_order_acquire) == before && (in_time = Clock::now() < end))
        detail::relax();
      lock.lock();
    }
  }
  sleep.wait(lock, has_come);
}

LOCKSTEP_INLINE void ReplicaThreads::work(int i) {
  const PinnedThread pinned(core_of(i));
  std::unique_lock lock(mutex_);
  for (;;) {
    others_.wait(lock, [&] { return is_new(i) || stopping_; });
    if (stopping_) return;
    take_part(i, lock);
  }
}

LOCKSTEP_INLINE void ReplicaThreads::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  others_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

}}  // namespace lockstep

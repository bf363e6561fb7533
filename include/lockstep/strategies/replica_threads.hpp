// The threads that the replicas of a process run on.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/collectives/host/cpu_relax.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/thread.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A fixed number of threads, made once; the first is the caller's own.
///
/// `run` gives all of them a function. In it they may all call `lead`, in which the first thread
/// runs a function of its own while the others wait. That function may call `run` again, in which
/// the waiting threads take part. So a model can be used while the same or another one is being
/// trained.
class ReplicaThreads {
 public:
  /// `requested` replicas, where 0 stands for this worker's share of the cores: cores / workers on this machine, at least 1. Throws
  /// ConfigurationError when it is negative or above 1024.
  [[nodiscard]] static int count(int requested, int workers_on_host = 1) {
    if (requested < 0 || requested > 1024)
      throw ConfigurationError(concat({"replicas must be 0 (one for each core) to 1024, got ", requested}));
    if (requested > 0) return requested;
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / workers_on_host);
  }

  /// `threads_on_host`: how many threads compete for this machine's cores (0: these). Throws Error
  /// when the system has no thread left.
  explicit ReplicaThreads(int size, int threads_on_host = 0)
      : size_(size),
        spins_(static_cast<unsigned>(std::max(size, threads_on_host)) <= std::thread::hardware_concurrency()),
        runs_seen_(static_cast<std::size_t>(size)) {
    threads_.reserve(static_cast<std::size_t>(size - 1));
    try {
      for (int i = 1; i < size; ++i)
        threads_.push_back(start_thread(concat({"replica ", i, " of ", size}), [this, i] { work(i); }));
    } catch (...) {
      stop();
      throw;
    }
  }
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;
  ~ReplicaThreads() { stop(); }

  [[nodiscard]] int size() const noexcept { return size_; }

  /// Whether a run is under way.
  [[nodiscard]] bool is_running() const {
    const std::lock_guard lock(mutex_);
    return run_ != nullptr;
  }

  /// For the argument `reset` of run: does nothing.
  struct NothingToReset {
    void operator()() const noexcept {}
  };

  /// Calls f(i) for each i in [0, size), f(0) on the calling thread, and returns when all have
  /// returned. The first exception that one of them throws is passed to abort(i, what, exit code),
  /// on the thread that threw it, and is thrown again at the end. reset() is called before a run
  /// that is in no other one, and after one that has failed, when no thread runs an f: for what
  /// failures leave behind.
  ///
  /// While a run is under way, only the first thread may call this, in a function that lead() runs.
  /// Throws Error at once otherwise.
  template <class F, class Abort, class Reset = NothingToReset>
  void run(F& f, Abort& abort, Reset reset = {}) {
    struct Context {
      ReplicaThreads& threads;
      Run& run;
      F& f;
      Abort& abort;
    };
    Run mine;
    Context context{*this, mine, f, abort};
    mine.context = &context;
    mine.working = size_ - 1;
    mine.job = [](void* opaque, int i) {
      Context& c = *static_cast<Context*>(opaque);
      try {
        c.f(i);
      } catch (const Abandoned&) {  // a consequence of what another thread has thrown
      } catch (const Error& error) {
        c.threads.failed(c.run, c.abort, i, error.what(), error.exit_code());
      } catch (const std::exception& error) {
        c.threads.failed(c.run, c.abort, i, error.what(), ExitCode::failure);
      } catch (...) {
        c.threads.failed(c.run, c.abort, i, "an exception that is no std::exception", ExitCode::failure);
      }
    };
    enter(mine);
    if (mine.outer == nullptr) reset();
    begin();
    mine.job(&context, 0);
    end(mine);
    if (mine.failure == nullptr) return leave(mine);
    reset();
    leave(mine);
    std::rethrow_exception(mine.failure);
  }

  /// Called by all threads in one run, each with its number. When all have come, the first one
  /// calls f(), while the others wait and take part in what f passes to run(); they return when f
  /// has. An exception of f is thrown in all of them. If a thread fails before it has come, f is
  /// not called. (There is no deadline: the awaited thread is in work that has one.)
  template <class F>
  void lead(int i, F&& f) {
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

 private:
  // One call of run(), on the first thread's stack.
  struct Run {
    void (*job)(void*, int) = nullptr;
    void* context = nullptr;
    Run* outer = nullptr;  // the run in whose lead() this one was called
    int working = 0;       // threads other than the first that have not returned
    int waiting = 0;       // those of them that wait in lead()
    unsigned leads = 0;    // that have ended
    bool is_leading = false;
    bool is_broken = false;  // a thread has failed
    std::exception_ptr failure;
  };

  // Thrown to leave a run when another thread has failed.
  struct Abandoned {};

  void enter(Run& run) {
    const std::lock_guard lock(mutex_);
    const std::thread::id caller = std::this_thread::get_id();
    if (run_ != nullptr && (caller != first_thread_ || !run_->is_leading))
      throw Error(
          "the replicas of this strategy are at work and cannot take part in another call now: a model cannot be used "
          "in on_test_batch_begin, on_test_batch_end or a function of the dataset, nor by another thread meanwhile; "
          "use it in on_test_end, on_epoch_end or another hook");
    run.outer = run_;
    run_ = &run;
    first_thread_ = caller;
  }

  void begin() {
    {
      const std::lock_guard lock(mutex_);
      ++runs_;
      changes_.fetch_add(1, std::memory_order_release);
    }
    others_.notify_all();
  }

  void end(const Run& run) {
    std::unique_lock lock(mutex_);
    first_.wait(lock, [&] { return run.working == 0; });
  }

  void leave(const Run& run) {
    const std::lock_guard lock(mutex_);
    run_ = run.outer;
  }

  Run& begin_lead() {
    std::unique_lock lock(mutex_);
    Run& run = innermost();
    await(lock, first_, [&] { return run.waiting == size_ - 1 || run.is_broken; });
    if (run.is_broken) throw Abandoned{};
    run.is_leading = true;
    return run;
  }

  void end_lead(Run& run, bool is_broken) noexcept {
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

  void follow(int i) {
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
  [[nodiscard]] Run& innermost() const {
    if (run_ == nullptr) throw Error("ReplicaThreads: lead() is for the function that run() calls");
    return *run_;
  }

  // Whether there is a run that thread i has not taken part in. Call under the lock.
  [[nodiscard]] bool is_new(int i) const noexcept { return runs_seen_[static_cast<std::size_t>(i)] != runs_; }

  void take_part(int i, std::unique_lock<std::mutex>& lock) {
    runs_seen_[static_cast<std::size_t>(i)] = runs_;
    Run& run = *run_;
    lock.unlock();
    run.job(run.context, i);
    lock.lock();
    if (--run.working == 0) first_.notify_one();
  }

  template <class Abort>
  void failed(Run& run, Abort& abort, int i, std::string_view what, ExitCode code) {
    {
      const std::lock_guard lock(mutex_);
      if (run.failure != nullptr) return;  // this failure is a consequence
      run.failure = std::current_exception();
    }
    abort(i, what, code);
    {
      const std::lock_guard lock(mutex_);
      run.is_broken = true;
      changes_.fetch_add(1, std::memory_order_release);
    }
    first_.notify_one();
    others_.notify_all();
  }

  // Waits under the lock, the first 50 us without sleeping where there are cores for it: waking up
  // takes a tenth of that.
  template <class Predicate>
  void await(std::unique_lock<std::mutex>& lock, std::condition_variable& sleep, Predicate has_come) {
    using Clock = std::chrono::steady_clock;
    if (spins_ && !has_come()) {
      const auto end = Clock::now() + std::chrono::microseconds(50);
      bool in_time = true;
      while (in_time && !has_come()) {
        const unsigned before = changes_.load(std::memory_order_acquire);
        lock.unlock();
        while (changes_.load(std::memory_order_acquire) == before && (in_time = Clock::now() < end)) detail::relax();
        lock.lock();
      }
    }
    sleep.wait(lock, has_come);
  }

  void work(int i) {
    std::unique_lock lock(mutex_);
    for (;;) {
      others_.wait(lock, [&] { return is_new(i) || stopping_; });
      if (stopping_) return;
      take_part(i, lock);
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    others_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  const int size_;
  const bool spins_;
  mutable std::mutex mutex_;
  std::condition_variable first_, others_;  // where the first thread and the others sleep
  std::atomic<unsigned> changes_{0};        // that a thread in lead() may wait for
  unsigned runs_ = 0;                       // that have begun
  std::vector<unsigned> runs_seen_;         // by each thread
  Run* run_ = nullptr;                      // the innermost
  std::thread::id first_thread_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

// The threads that the replicas of a process run on.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/thread.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A fixed number of threads, made once; the first is the caller's own.
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

  /// Throws Error when the system has no thread left.
  explicit ReplicaThreads(int size) : size_(size) {
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

  /// Calls f(i) for each i in [0, size), f(0) on the calling thread, and returns when all have returned. The first
  /// exception that one of them throws is passed to abort(i, what, exit code), on the thread that threw it, and is thrown
  /// again at the end. It must not be called by f.
  template <class F, class Abort>
  void run(F& f, Abort& abort) {
    failure_ = nullptr;
    struct Context {
      ReplicaThreads& threads;
      F& f;
      Abort& abort;
    } context{*this, f, abort};
    const auto job = [](void* opaque, int i) {
      Context& c = *static_cast<Context*>(opaque);
      try {
        c.f(i);
      } catch (const Error& error) {
        c.threads.failed(c.abort, i, error.what(), error.exit_code());
      } catch (const std::exception& error) {
        c.threads.failed(c.abort, i, error.what(), ExitCode::failure);
      } catch (...) {
        c.threads.failed(c.abort, i, "an exception that is no std::exception", ExitCode::failure);
      }
    };
    {
      const std::lock_guard lock(mutex_);
      job_ = job;
      context_ = &context;
      working_ = size_ - 1;
      ++generation_;
    }
    begin_.notify_all();
    job(&context, 0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return working_ == 0; });
    if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  template <class Abort>
  void failed(Abort& abort, int i, std::string_view what, ExitCode code) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_ != nullptr) return;  // this one is a consequence
      failure_ = std::current_exception();
    }
    abort(i, what, code);
  }

  void work(int i) {
    unsigned seen = 0;
    for (;;) {
      std::unique_lock lock(mutex_);
      begin_.wait(lock, [&] { return generation_ != seen || stopping_; });
      if (stopping_) return;
      seen = generation_;
      lock.unlock();
      job_(context_, i);
      lock.lock();
      if (--working_ == 0) done_.notify_one();
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    begin_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  const int size_;
  std::mutex mutex_;
  std::condition_variable begin_;
  std::condition_variable done_;
  unsigned generation_ = 0;
  bool stopping_ = false;
  int working_ = 0;
  void (*job_)(void*, int) = nullptr;
  void* context_ = nullptr;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

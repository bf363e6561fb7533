// Implements parallel_read.hpp.
#pragma once

#include "lockstep/data/parallel_read.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "lockstep/core/cores.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/thread.hpp"
#include "lockstep/data/pipeline.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE std::size_t reading_threads(std::int64_t num_threads) {
  if (num_threads == autotune) return static_cast<std::size_t>(usable_cores());
  if (num_threads < 1 || num_threads > 256)
    throw ConfigurationError(concat(
        {"parallel_read: num_threads must be autotune (-1) or in [1, 256], got ", num_threads}));
  return static_cast<std::size_t>(num_threads);
}

struct ReadingThreads::State {
  std::mutex mutex;
  std::condition_variable wake, done;
  FunctionRef<void(std::size_t)>* work = nullptr;
  std::size_t parts = 0, next = 0, running = 0;
  bool quit = false;
  std::vector<std::exception_ptr> failures;
  std::vector<std::thread> threads;

  ~State() {
    {
      const std::lock_guard lock(mutex);
      quit = true;
    }
    wake.notify_all();
    for (std::thread& each : threads) each.join();
  }

  void serve() {
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return quit || next < parts; });
      if (quit) return;
      const std::size_t part = next++;
      lock.unlock();
      call(part);
      lock.lock();
      if (--running == 0) done.notify_one();
    }
  }

  void call(std::size_t part) noexcept {
    try {
      (*work)(part);
    } catch (...) {
      failures[part] = std::current_exception();
    }
  }
};

LOCKSTEP_INLINE ReadingThreads::~ReadingThreads() { delete state_; }

LOCKSTEP_INLINE void ReadingThreads::run(std::size_t n, FunctionRef<void(std::size_t)> f) {
  if (state_ == nullptr) state_ = new State;
  State& state = *state_;
  while (state.threads.size() + 1 < n)
    state.threads.push_back(
        start_thread("reading samples (parallel_read)", [&state] { state.serve(); }));
  {
    const std::lock_guard lock(state.mutex);
    state.work = &f;
    state.failures.assign(n, nullptr);
    state.next = 1;
    state.parts = n;
    state.running = n - 1;
  }
  state.wake.notify_all();
  state.call(0);
  std::unique_lock lock(state.mutex);
  state.done.wait(lock, [&] { return state.running == 0; });
  for (const std::exception_ptr& failure : state.failures)
    if (failure != nullptr) std::rethrow_exception(failure);
}

}}}  // namespace lockstep::detail

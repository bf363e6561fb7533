// A task on a thread of its own.
#pragma once

#include <functional>
#include <future>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Runs one task at a time, while its owner goes on. Only one thread may call the members. The
/// destructor waits for the task and logs what it throws.
class BackgroundTask {
 public:
  BackgroundTask() = default;
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;
  ~BackgroundTask();

  [[nodiscard]] bool is_running() const;
  /// Waits for the task before, and throws what it threw; then starts this one.
  void start(std::function<void()> task);
  /// Waits for the task, if there is one, and throws what it threw.
  void finish();

 private:
  std::future<void> result_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/checkpoint/background_task.ipp"
#endif

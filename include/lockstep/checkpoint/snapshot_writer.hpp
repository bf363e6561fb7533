// SnapshotWriter: saves on a thread while training goes on.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "lockstep/checkpoint/snapshot.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/thread.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

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

/// Writes snapshots to a file, one after the other, on a separate thread (Task is BackgroundTask,
/// or a test's). Only one thread may call the members.
template <class Task = BackgroundTask>
class SnapshotWriter {
 public:
  /// Takes `get_snapshot(reused)` to be written next, in place of an earlier snapshot that still
  /// waits. `reused` is one that is no longer needed. If get_snapshot throws, none waits.
  template <class GetSnapshot>
  void put(const GetSnapshot& get_snapshot) {
    const std::lock_guard guard(mutex_);
    if (!is_writing_) std::swap(current_, next_);  // then one of the two is enough
    // get_snapshot may throw, and has taken next_ then
    has_next_ = false;
    next_ = get_snapshot(std::move(next_));
    has_next_ = true;
  }
  void forget_next() {
    const std::lock_guard guard(mutex_);
    has_next_ = false;
  }
  /// Whether a snapshot waits that no thread is going to write.
  [[nodiscard]] bool needs_start() {
    const std::lock_guard guard(mutex_);
    return has_next_ && !is_writing_;
  }
  /// Writes it, on the calling thread if the system has no other left. To be called after finish(),
  /// when needs_start(). Throws the error of a write on the calling thread.
  void start(const std::string& path) {
    {
      const std::lock_guard guard(mutex_);
      take_next();
    }
    try {
      task_.start([this, path] { write_all(path); });
    } catch (const Error&) {
      write_all(path);
    }
  }
  [[nodiscard]] bool is_running() const { return task_.is_running(); }
  /// Waits until everything is written. Throws the error of a write that failed.
  void finish() { task_.finish(); }

  /// The existing file is damaged, and not worth keeping beside the next one.
  void do_not_keep() { former_ = FormerFile::removed; }
  void free_memory() { current_ = next_ = {}; }

 private:
  bool take_next() {
    is_writing_ = std::exchange(has_next_, false);
    if (is_writing_) std::swap(current_, next_);
    return is_writing_;
  }

  void write_all(const std::string& path) {
    try {
      for (bool more = true; more;) {
        save_snapshot(path, current_, former_);
        former_ = FormerFile::kept;
        const std::lock_guard guard(mutex_);
        more = take_next();
      }
    } catch (...) {
      const std::lock_guard guard(mutex_);
      is_writing_ = false;
      throw;
    }
  }

  std::mutex mutex_;
  TrainingState current_, next_;  // what is being written, and what comes after it
  bool is_writing_ = false;
  bool has_next_ = false;
  FormerFile former_ = FormerFile::kept;
  Task task_;  // ends before the others go
};

inline BackgroundTask::~BackgroundTask() {
  try {
    finish();
  } catch (const std::exception& error) {
    log_warning(error.what());
  }
}

inline bool BackgroundTask::is_running() const {
  return result_.valid() && result_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

inline void BackgroundTask::start(std::function<void()> task) {
  finish();
  try {
    result_ = std::async(std::launch::async, std::move(task));
  } catch (const std::system_error& error) {
    throw_no_thread("saving beside training", error);
  }
}

inline void BackgroundTask::finish() {
  if (result_.valid()) result_.get();
}

}}}  // namespace lockstep::detail

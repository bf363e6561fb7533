// The exit code of a launcher, when all its workers have ended.
#pragma once

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

#include "lockstep/cluster/detail/launched_worker.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

enum class Stage {
  running,
  failing,   ///< one has failed, and the others may end by themselves
  stopping,  ///< they were told to
  killed
};

/// The stage of a launcher, and its deadline, if it has one.
class LaunchStage {
 public:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] bool is(Stage stage) const noexcept { return stage_ == stage; }
  [[nodiscard]] Clock::time_point began() const noexcept { return began_; }
  /// When the next stage comes.
  [[nodiscard]] std::optional<Clock::time_point> due() const noexcept {
    if (is(Stage::failing) || is(Stage::stopping)) return deadline_;
    return std::nullopt;
  }

  void enter(Stage stage, std::chrono::milliseconds grace) {
    stage_ = stage;
    began_ = Clock::now();
    deadline_ = began_ + grace;
  }
  /// There is nothing left to wait for.
  void end_at(Clock::time_point now) noexcept { deadline_ = now; }

 private:
  Stage stage_ = Stage::running;
  Clock::time_point began_{};
  Clock::time_point deadline_{};
};

/// The worker that is to blame: the first one that failed by itself, or else the first that failed
/// at all. nullptr when none has failed. Those that an elastic job has left out, and gone on, come
/// after those that fail by themselves, and do not count if it has come to its end.
inline const LaunchedWorker* first_failure(const std::vector<LaunchedWorker>& workers) {
  const auto rank = [](const LaunchedWorker& worker) {
    return (worker.by_launcher ? 2'000'000 : 0) + (worker.by_peer ? 1'000'000 : 0) +
           (worker.left_out ? 500'000 : 0) + worker.order;
  };
  const bool is_survived = std::ranges::any_of(workers, [](const LaunchedWorker& worker) {
    return !worker.task.is_server && worker.has_succeeded();
  });
  const LaunchedWorker* first = nullptr;
  for (const LaunchedWorker& worker : workers)
    if (worker.end.code != 0 && !(worker.left_out && is_survived) &&
        (first == nullptr || rank(worker) < rank(*first)))
      first = &worker;
  return first;
}

/// Logs why the run failed, if it did. `interrupted_by` is the signal that ended it, or 0.
inline int launch_result(const std::vector<LaunchedWorker>& workers, int interrupted_by) {
  const LaunchedWorker* const first = first_failure(workers);
  const bool job_is_done = workers.front().has_succeeded();
  if (first == nullptr || (job_is_done && first->by_launcher && interrupted_by == 0)) return 0;
  if (interrupted_by != 0) {
    log_line(interrupted_by == SIGINT    ? "stopped by SIGINT"
             : interrupted_by == SIGTERM ? "stopped by SIGTERM"
             : interrupted_by == SIGUSR1 ? "stopped by SIGUSR1"
                                         : "stopped by SIGHUP");
    return static_cast<int>(interrupted_by == SIGINT ? ExitCode::interrupted
                                                     : ExitCode::terminated);
  }
  log_line(concat({first->name(), " failed first: ", first->how_it_ended()}), LogLevel::error);
  return first->end.code;
}

/// `code`, or 1 in place of 0 when output was lost: the output may be what the run was for.
inline int code_with_lost_output(const std::vector<LaunchedWorker>& workers, int code) {
  for (const LaunchedWorker& worker : workers)
    if (const int error = worker.process.output_failure(); code == 0 && error != 0) {
      log_line(
          concat({"error: the workers have ended, but not all of their output could be written to "
                  "stdout: ",
                  std::strerror(error)}),
          LogLevel::error);
      return static_cast<int>(ExitCode::failure);
    }
  return code;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#pragma once

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/cluster/detail/elastic_job.hpp"
#include "lockstep/cluster/detail/launch_result.hpp"
#include "lockstep/cluster/detail/launched_worker.hpp"
#include "lockstep/cluster/detail/remote_start.hpp"
#include "lockstep/cluster/detail/servers_end.hpp"
#include "lockstep/cluster/detail/signal_pipe.hpp"
#include "lockstep/cluster/detail/worker_group.hpp"
#include "lockstep/cluster/hang_detector.hpp"
#include "lockstep/cluster/launcher.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/rare_log.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// Starts the workers, passes on what they print and the signals, and starts again or kills those
/// that ask for it.
class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options)
      : options_(options),
        workers_(options.workers, options.servers, options.restarts, options.program,
                 options.arguments, options.hosts, remote_start(options)),
        servers_end_(workers_, options.failure_grace, options.stop_grace),
        hang_detector_(static_cast<std::size_t>(options.workers + options.servers)) {
    set_log_place({.task = std::string(log_task_of_launcher), .run = workers_.run()});
    std::fflush(nullptr);  // what this process has printed comes before what its workers print
    const auto now = Clock::now();
    for (const Worker& worker : workers_) hang_detector_.began(worker.index, now);
    workers_.start_all();
    if (options.restarts == 0) workers_.close_ports();
  }

  int wait() {
    while (workers_.any_lives()) {
      workers_.poll(signals_.descriptor(), next_deadline());
      for (int signal; (signal = signals_.take()) != 0;)
        if (signal != SIGCHLD) pass_on(signal);
      reap();
      for (Worker& worker : workers_) take_notes(worker);
      keep_deadlines();
    }
    workers_.finish_output(signals_.descriptor());
    return code_with_lost_output(workers_.all(), launch_result(workers_.all(), interrupted_by_));
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Worker = LaunchedWorker;

  // --- what workers say --------------------------------------------------------------------------

  void take_notes(Worker& worker) {
    while (const auto note = worker.process.take_note()) heed(worker, WorkerNote(*note));
  }

  void heed(Worker& worker, const WorkerNote& note) {
    Worker* const other = workers_.find(note.about);
    const auto now = Clock::now();
    if (note.kind == "at") {
      if (worker.process.is_remote()) worker.process.set_address(note.about);
    } else if (note.kind == "met") {
      hang_detector_.met(
          worker.index,
          worker.process.is_remote() ? now : note.time());  // hosts have other clocks
      worker.lost_another.reset();
    } else if (note.kind == "world") {
      elastic_.heed(note);
    } else if (note.kind == "stops") {
      worker.has_agreed_to_stop = true;
    } else if (note.kind == "waits" && other != nullptr) {
      other->keeps_others_waiting = true;
    } else if (note.kind == "lost" || note.kind == "missed" || note.kind == "follows") {
      if (!worker.task.is_server) worker.lost_another = now;  // a server goes on
      if (other == nullptr) return;  // in an elastic job: they know each other by other addresses
      if (note.kind == "lost")
        hang_detector_.lost(worker.index, other->index, std::string(note.text), now);
      if (note.kind == "missed")
        hang_detector_.missed(worker.index, other->index, std::string(note.text), now);
    }
  }

  // Kills a worker that its peers have lost, or wait for without end. `how`: "lost to worker 0".
  void kill_hung(Worker& worker, std::string how) {
    if (!worker.process.lives() || worker.has_agreed_to_stop) return;
    const bool again = stage_.is(Stage::running) && worker.restarts_left > 0 && !job_is_done() &&
                       (!worker.task.is_server || workers_.any_worker_lives());
    warn(
        concat({worker.name(), " was ", how, ", but its process still exists: it is killed",
                again ? concat({" and started again; ", worker.restarts_left - 1, " restarts left"})
                      : ""}));
    worker.hung = std::move(how);
    worker.process.signal(SIGKILL);
  }

  // When a worker that is stopped counts as one that hangs. In an elastic job the others go on
  // without it, and it may come back.
  [[nodiscard]] std::optional<Clock::time_point> hangs_at(const Worker& worker) const {
    const auto since = worker.process.stopped_since();
    if (!since || worker.hung || !stage_.is(Stage::running) || elastic_.is_elastic())
      return std::nullopt;
    return *since + options_.stopped_grace;
  }

  static void warn(const std::string& text) { log_line(text, LogLevel::warning); }

  // --- the end of processes ----------------------------------------------------------------------

  void reap() {
    for (Worker& worker : workers_) {
      const auto end = worker.process.reap();
      if (!end) continue;
      take_notes(worker);
      hang_detector_.ended(worker.index);
      elastic_.ended(worker.index);
      worker.order = ++ended_;
      worker.end = *end;
      if (worker.hung) worker.end.code = static_cast<int>(ExitCode::lost_peer);
      worker.by_peer = !worker.hung && (worker.end.code == static_cast<int>(ExitCode::lost_peer) ||
                                        worker.lost_another);
      const bool has_served = worker.task.is_server && servers_end_.has_told() && !worker.hung;
      if (has_served) worker.end = {};  // the job had ended
      worker.by_launcher = !worker.hung && (killed_ || told_to_stop_);
      if (stage_.is(Stage::running) && !has_served) decide_about(worker);
      if (stage_.is(Stage::running) && elastic_.leaves_some_behind(workers_.all()))
        stage_.enter(Stage::failing, options_.failure_grace);
      worker.left_out = !worker.process.lives() && elastic_.goes_without(worker, workers_.all());
    }
  }

  [[nodiscard]] bool job_is_done() const {
    return workers_.chief_has_succeeded() || elastic_.is_done(workers_.all());
  }

  void decide_about(Worker& worker) {
    if (worker.task.is_server) {
      if (worker.end.code == 0 || !workers_.any_worker_lives()) return;
      if (worker.end.code >= 128 && worker.restarts_left > 0)
        restart(worker);
      else
        stage_.enter(Stage::failing, options_.failure_grace);
    } else if (worker.end.code == 0) {
      if (worker.index == 0 && workers_.waits_for_the_chief())
        stage_.enter(Stage::failing, options_.failure_grace);
      else if (has_restarted_ && !worker.came_back && !job_is_done())
        worker.back_at = Clock::now() + std::chrono::seconds(3);
    } else if (worker.end.code >= 128 && worker.restarts_left > 0 && !job_is_done()) {
      restart(worker);
    } else if (worker.came_back) {
      worker.end.code = 0;  // it had ended with 0 before it was started again
    } else if (elastic_.goes_without(worker, workers_.all())) {
      if (!job_is_done()) tell_how_to_start_again(worker);
    } else {
      stage_.enter(Stage::failing, options_.failure_grace);
    }
  }

  void tell_how_to_start_again(Worker& worker) {
    worker.process.close_port();
    warn(concat({worker.name(), " ended (", worker.how_it_ended(), elastic_.outlook(),
                 workers_.command(worker)}));
  }

  // A worker that ended with 0 is needed again if the chief, which leaves last, was killed before
  // it left.
  [[nodiscard]] bool is_wanted_back(const Worker& worker) const {
    return worker.back_at && stage_.is(Stage::running) && !job_is_done();
  }

  void restart(Worker& worker) {
    --worker.restarts_left;
    if (!worker.hung)
      warn(concat({worker.name(), " ended (", worker.how_it_ended(), ") and is started again; ",
                   worker.restarts_left, " restarts left"}));
    start_again(worker);
    if (workers_.has_servers()) return;  // it needs no other worker
    has_restarted_ = true;
    for (Worker& other : workers_)
      if (other.has_succeeded()) start_again(other);
  }

  void start_again(Worker& worker) {
    hang_detector_.began(worker.index, Clock::now());
    workers_.start_again(worker);
  }

  // --- deadlines ---------------------------------------------------------------------------------

  [[nodiscard]] Clock::time_point next_deadline() const {
    auto next = Clock::now() + std::chrono::minutes(1);
    if (const auto due = hang_detector_.due()) next = std::min(next, *due);
    if (const auto due = servers_end_.due()) next = std::min(next, *due);
    for (const Worker& worker : workers_) {
      if (is_wanted_back(worker)) next = std::min(next, *worker.back_at);
      if (const auto due = hangs_at(worker)) next = std::min(next, *due);
    }
    if (const auto due = stage_.due()) next = std::min(next, *due);
    if (const auto in_vain = all_wait_in_vain_since())
      next = std::min(next, *in_vain + HangDetector::time_to_settle);
    if (stage_.is(Stage::stopping) && stop_is_delayed())
      next = std::min(next, stage_.began() + options_.hung_grace);
    return next;
  }

  void keep_deadlines() {
    const auto now = Clock::now();
    for (Worker& worker : workers_)
      if (is_wanted_back(worker) && now >= *worker.back_at) {
        start_again(worker);
        worker.came_back = true;
      }
    if (const auto hung = hang_detector_.verdict(now))
      kill_hung(workers_[hung->worker],
                concat({"lost to ", workers_[hung->lost_to].name(), " (", hung->why, ")"}));
    for (Worker& worker : workers_)
      if (const auto due = hangs_at(worker); due && now >= *due)
        kill_hung(worker,
                  concat({"stopped (SIGSTOP) for ", duration_text(options_.stopped_grace)}));
    if (!hang_detector_.due()) servers_end_.keep(now);
    if (stage_.is(Stage::stopping) && now >= stage_.began() + options_.hung_grace)
      kill_those_that_delay_the_stop();
    if (const auto in_vain = all_wait_in_vain_since();
        in_vain && now >= *in_vain + HangDetector::time_to_settle)
      stage_.end_at(now);
    if (const auto due = stage_.due(); !due || now < *due) return;
    if (stage_.is(Stage::failing)) {
      told_to_stop_ = true;
      tell_to_stop(SIGTERM);
    } else {
      kill();
    }
  }

  [[nodiscard]] std::optional<Clock::time_point> all_wait_in_vain_since() const {
    return stage_.is(Stage::failing) ? workers_.all_wait_in_vain_since(stage_.began())
                                     : std::nullopt;
  }

  [[nodiscard]] bool stop_is_delayed() const {
    return workers_.any([](const Worker& worker) { return worker.delays_stop(); });
  }
  void kill_those_that_delay_the_stop() {
    for (Worker& worker : workers_) {
      if (!worker.delays_stop()) continue;
      warn(concat({worker.name(), " was told to stop and keeps the others waiting: it is killed"}));
      worker.hung = "told to stop, kept the others waiting,";
      worker.process.signal(SIGKILL);
    }
  }

  // --- signals -----------------------------------------------------------------------------------

  void pass_on(int signal) {
    const auto now = Clock::now();
    if (interrupted_by_ != 0) {
      // One Ctrl-C may come twice, from the terminal and from a program such as timeout.
      if (now - interrupted_at_ >= std::chrono::seconds(1)) kill();
      return;
    }
    interrupted_by_ = signal;
    interrupted_at_ = now;
    if (stage_.is(Stage::running) || stage_.is(Stage::failing))
      tell_to_stop(signal == SIGINT ? SIGINT : SIGTERM);
  }

  void tell_to_stop(int signal) {
    for (Worker& worker : workers_) worker.keeps_others_waiting = false;
    workers_.signal_workers(signal);
    workers_.signal_workers(SIGCONT);  // for those that are stopped
    stage_.enter(Stage::stopping, options_.stop_grace);
  }

  void kill() {
    killed_ = true;
    workers_.signal_all(SIGKILL);
    stage_.enter(Stage::killed, {});
  }

  const LaunchOptions options_;
  SignalPipe signals_;
  WorkerGroup workers_;
  ServersEnd servers_end_;
  HangDetector hang_detector_;
  ElasticJob elastic_;
  LaunchStage stage_;
  int ended_ = 0;
  bool has_restarted_ = false;
  int interrupted_by_ = 0;
  Clock::time_point interrupted_at_{};
  bool told_to_stop_ = false;
  bool killed_ = false;
};

}  // namespace detail

LOCKSTEP_INLINE int launch_workers(const LaunchOptions& options) {
  options.validate();
  return detail::Launcher(options).wait();
}

}  // namespace lockstep::inline LOCKSTEP_ABI

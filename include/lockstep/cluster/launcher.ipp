#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/cluster/accusations.hpp"
#include "lockstep/cluster/detail/descriptor.hpp"
#include "lockstep/cluster/detail/ignored_signals.hpp"
#include "lockstep/cluster/detail/prefixed_stream.hpp"
#include "lockstep/cluster/detail/signal_pipe.hpp"
#include "lockstep/cluster/detail/worker_process.hpp"
#include "lockstep/cluster/launcher.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options)
      : options_(options), accusations_(static_cast<std::size_t>(options.workers)) {
    std::fflush(nullptr);  // what this process has printed comes before what its workers print
    null_ = Descriptor::checked(::open("/dev/null", O_RDONLY | O_CLOEXEC), "open /dev/null");
    workers_.reserve(static_cast<std::size_t>(options.workers));
    for (int index = 0; index < options.workers; ++index) {
      workers_.emplace_back(index, options.restarts);
      program_.addresses += concat({index == 0 ? "" : ",", "\"", workers_.back().process.address(), "\""});
    }
    const auto now = Clock::now();
    for (const Worker& worker : workers_) accusations_.began(worker.index, now);
    try {
      for (Worker& worker : workers_) worker.process.start(program_);
    } catch (...) {
      end_all();
      throw;
    }
    if (options.restarts == 0)
      for (Worker& worker : workers_) worker.process.close_port();
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  ~Launcher() {
    end_all();
    ignored_.restore();
  }

  int wait() {
    while (std::any_of(workers_.begin(), workers_.end(), [](const Worker& worker) { return worker.process.lives(); })) {
      poll(next_deadline());
      for (int signal; (signal = signals_.take()) != 0;)
        if (signal != SIGCHLD) pass_on(signal);
      reap();
      for (Worker& worker : workers_) take_notes(worker);
      keep_deadlines();
    }
    // A worker's own child may hold its output open.
    const auto end = Clock::now() + std::chrono::seconds(1);
    while (Clock::now() < end && std::any_of(workers_.begin(), workers_.end(), has_output)) poll(end);
    for (Worker& worker : workers_) worker.process.finish_output();
    return check_output(result());
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Worker {
    Worker(int place, int restarts) : index(place), process(place), restarts_left(restarts) {}

    int index;
    WorkerProcess process;
    int restarts_left;
    ProcessEnd end{};
    int order = 0;                                    // the first one that ended is 1
    bool by_peer = false;                             // it failed because another worker did
    bool by_launcher = false;                         // it had been told to stop
    std::optional<HungWorker> hung{};                 // it was killed for that
    std::optional<Clock::time_point> lost_another{};  // and has not connected since then
    bool keeps_others_waiting = false;                // since they were told to stop
    bool has_agreed_to_stop = false;
    std::optional<Clock::time_point>
        back_at{};           // it has ended well, and is started again then, unless the chief has too
    bool came_back = false;  // for that reason
    bool was_started_again = false;

    /// Cleans up after a process, and starts its successor.
    void start_again(const WorkerProgram& program) {
      end = {};
      order = 0;
      by_peer = by_launcher = keeps_others_waiting = has_agreed_to_stop = came_back = false;
      hung.reset();
      lost_another.reset();
      back_at.reset();
      was_started_again = true;
      process.start(program);
    }

    [[nodiscard]] std::string how_it_ended() const {
      if (!hung) return end.text();
      if (hung->lost_to < 0) return "told to stop, it kept the others waiting, and was killed";
      return concat({"lost to worker ", hung->lost_to, " (", hung->why, ") and killed"});
    }
  };

  static bool has_output(Worker& worker) {
    return worker.process.output()[0].source().is_open() || worker.process.output()[1].source().is_open();
  }

  void poll(Clock::time_point until) {
    std::vector<pollfd> watched{{signals_.descriptor(), POLLIN, 0}};
    std::vector<PrefixedStream*> streams;
    for (Worker& worker : workers_)
      for (PrefixedStream& stream : worker.process.output())
        if (stream.source().is_open()) {
          watched.push_back({stream.source().get(), POLLIN, 0});
          streams.push_back(&stream);
        }
    for (const Worker& worker : workers_)
      if (worker.process.lives()) watched.push_back({worker.process.note_descriptor(), POLLIN, 0});
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (::poll(watched.data(), watched.size(), static_cast<int>(std::clamp<long long>(left + 1, 0, 60'000))) <= 0)
      return;
    for (std::size_t i = 0; i < streams.size(); ++i)
      if (watched[i + 1].revents != 0) streams[i]->pump();
  }

  // --- what workers say --------------------------------------------------------------------------

  [[nodiscard]] Worker* worker_at(std::string_view address) {
    for (Worker& worker : workers_)
      if (worker.process.address() == address) return &worker;
    return nullptr;
  }

  void take_notes(Worker& worker) {
    while (const auto note = worker.process.take_note()) heed(worker, *note);
  }

  void heed(Worker& worker, std::string_view note) {
    const auto word = [&] {
      const std::size_t end = std::min(note.find(' '), note.size());
      const std::string_view taken = note.substr(0, end);
      note.remove_prefix(std::min(end + 1, note.size()));
      return taken;
    };
    const std::string_view what = word();
    const std::string_view about = word();
    const Worker* const other = worker_at(about);
    const auto now = Clock::now();
    if (what == "met") {
      Clock::rep time = 0;
      std::from_chars(about.data(), about.data() + about.size(), time);
      accusations_.met(worker.index, Clock::time_point(Clock::duration(time)));
      worker.lost_another.reset();
    } else if (what == "stops") {
      worker.has_agreed_to_stop = true;
    } else if (what == "waits" && other != nullptr) {
      workers_[static_cast<std::size_t>(other->index)].keeps_others_waiting = true;
    } else if (what == "lost" || what == "missed" || what == "follows") {
      worker.lost_another = now;
      if (what == "lost" && other != nullptr) accusations_.lost(worker.index, other->index, std::string(note), now);
      if (what == "missed" && other != nullptr) accusations_.missed(worker.index, other->index, std::string(note), now);
    }
  }

  // Kills a worker that all others have lost, or wait for in vain.
  void kill_hung(Worker& worker, HungWorker hung) {
    if (!worker.process.lives() || worker.has_agreed_to_stop) return;
    const bool again = stage_ == Stage::running && worker.restarts_left > 0 && !job_is_done();
    log_line(concat({"worker ", worker.index, " was lost to worker ", hung.lost_to, " (", hung.why,
                     "), but its process still exists: it is killed",
                     again ? concat({" and started again; ", worker.restarts_left - 1, " restarts left"}) : ""}));
    worker.hung = std::move(hung);
    worker.process.signal(SIGKILL);
  }

  // --- the end of processes ----------------------------------------------------------------------

  void reap() {
    for (Worker& worker : workers_) {
      const auto end = worker.process.reap();
      if (!end) continue;
      take_notes(worker);
      accusations_.ended(worker.index);
      worker.order = ++ended_;
      worker.end = *end;
      if (worker.hung) worker.end.code = static_cast<int>(ExitCode::lost_peer);
      worker.by_peer =
          !worker.hung && (worker.end.code == static_cast<int>(ExitCode::lost_peer) || worker.lost_another);
      worker.by_launcher = !worker.hung && (killed_ || told_to_stop_);
      if (stage_ == Stage::running) decide_about(worker);
    }
  }

  void decide_about(Worker& worker) {
    if (worker.end.code == 0) {
      if (leaves_somebody_behind(worker))
        enter(Stage::failing, options_.failure_grace);
      else if (has_restarted_ && !worker.came_back && !job_is_done())
        worker.back_at = Clock::now() + std::chrono::seconds(3);
    } else if (worker.end.code >= 128 && worker.restarts_left > 0 && !job_is_done()) {
      restart(worker);
    } else if (worker.came_back) {
      worker.end.code = 0;  // it had ended well, and was started again in vain
    } else {
      enter(Stage::failing, options_.failure_grace);
    }
  }

  // The chief leaves last. Whoever was killed just before its end, and was started again, would wait for it in vain.
  [[nodiscard]] bool leaves_somebody_behind(const Worker& worker) const {
    return worker.index == 0 && std::any_of(workers_.begin(), workers_.end(), [](const Worker& other) {
             return other.process.lives() && other.was_started_again;
           });
  }

  [[nodiscard]] bool job_is_done() const { return !workers_.front().process.lives() && workers_.front().end.code == 0; }

  // A worker that has ended well is needed once more when the chief, which leaves last, was killed before it had left.
  [[nodiscard]] bool is_wanted_back(const Worker& worker) const {
    return worker.back_at && stage_ == Stage::running && !job_is_done();
  }

  void restart(Worker& worker) {
    --worker.restarts_left;
    if (!worker.hung)
      log_line(concat({"worker ", worker.index, " ended (", worker.end.text(), ") and is started again; ",
                       worker.restarts_left, " restarts left"}));
    has_restarted_ = true;
    start_again(worker);
    for (Worker& other : workers_)
      if (!other.process.lives() && other.end.code == 0) start_again(other);
  }

  void start_again(Worker& worker) {
    accusations_.began(worker.index, Clock::now());
    worker.start_again(program_);
  }

  // --- deadlines ---------------------------------------------------------------------------------

  // What is done about the workers that live, when the deadline has come.
  enum class Stage { running, failing, stopping, killed };

  void enter(Stage stage, std::chrono::milliseconds grace) {
    stage_ = stage;
    stage_began_ = Clock::now();
    deadline_ = stage_began_ + grace;
  }

  [[nodiscard]] Clock::time_point next_deadline() const {
    auto next = Clock::now() + std::chrono::minutes(1);
    if (const auto due = accusations_.due()) next = std::min(next, *due);
    for (const Worker& worker : workers_)
      if (is_wanted_back(worker)) next = std::min(next, *worker.back_at);
    if (stage_ == Stage::failing || stage_ == Stage::stopping) next = std::min(next, deadline_);
    if (const auto in_vain = all_wait_in_vain_since()) next = std::min(next, *in_vain + Accusations::time_to_settle);
    if (stage_ == Stage::stopping && somebody_holds_up_the_stop())
      next = std::min(next, stage_began_ + options_.hung_grace);
    return next;
  }

  void keep_deadlines() {
    const auto now = Clock::now();
    for (Worker& worker : workers_)
      if (is_wanted_back(worker) && now >= *worker.back_at) {
        start_again(worker);
        worker.came_back = true;
      }
    if (auto hung = accusations_.verdict(now))
      kill_hung(workers_[static_cast<std::size_t>(hung->worker)], std::move(*hung));
    if (stage_ == Stage::stopping && now >= stage_began_ + options_.hung_grace) kill_those_that_hold_up_the_stop();
    if (const auto in_vain = all_wait_in_vain_since(); in_vain && now >= *in_vain + Accusations::time_to_settle)
      deadline_ = now;
    if ((stage_ != Stage::failing && stage_ != Stage::stopping) || now < deadline_) return;
    if (stage_ == Stage::failing) {
      told_to_stop_ = true;
      tell_to_stop(SIGTERM);
    } else {
      kill();
    }
  }

  // In a run that fails: the time since which every living worker has lost another one and waits
  // for a successor that does not come.
  [[nodiscard]] std::optional<Clock::time_point> all_wait_in_vain_since() const {
    if (stage_ != Stage::failing) return std::nullopt;
    auto since = stage_began_;
    for (const Worker& worker : workers_) {
      if (!worker.process.lives()) continue;
      if (!worker.lost_another) return std::nullopt;
      since = std::max(since, *worker.lost_another);
    }
    return since;
  }

  static bool holds_up_the_stop(const Worker& worker) {
    return worker.process.lives() && worker.keeps_others_waiting && !worker.has_agreed_to_stop && !worker.hung;
  }
  [[nodiscard]] bool somebody_holds_up_the_stop() const {
    return std::any_of(workers_.begin(), workers_.end(), holds_up_the_stop);
  }
  void kill_those_that_hold_up_the_stop() {
    for (Worker& worker : workers_) {
      if (!holds_up_the_stop(worker)) continue;
      log_line(concat({"worker ", worker.index, " was told to stop and keeps the others waiting: it is killed"}));
      worker.hung.emplace();
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
    if (stage_ == Stage::running || stage_ == Stage::failing) tell_to_stop(signal == SIGHUP ? SIGTERM : signal);
  }

  void tell_to_stop(int signal) {
    for (Worker& worker : workers_) {
      worker.keeps_others_waiting = false;
      worker.process.signal(signal);
      worker.process.signal(SIGCONT);  // for one that is stopped
    }
    enter(Stage::stopping, options_.stop_grace);
  }

  void kill() {
    killed_ = true;
    for (const Worker& worker : workers_) worker.process.signal(SIGKILL);
    enter(Stage::killed, {});
  }

  void end_all() {
    for (Worker& worker : workers_) worker.process.end();
  }

  // --- the result --------------------------------------------------------------------------------

  int result() {
    // The cause is the first worker that failed by itself; if there is none, the first that failed at all.
    const Worker* first = nullptr;
    const auto rank = [](const Worker& worker) {
      return (worker.by_launcher ? 2'000'000 : 0) + (worker.by_peer ? 1'000'000 : 0) + worker.order;
    };
    for (const Worker& worker : workers_)
      if (worker.end.code != 0 && (first == nullptr || rank(worker) < rank(*first))) first = &worker;
    if (first == nullptr || (job_is_done() && first->by_launcher && interrupted_by_ == 0)) return 0;
    if (interrupted_by_ != 0) {
      log_line(interrupted_by_ == SIGINT    ? "stopped by SIGINT"
               : interrupted_by_ == SIGTERM ? "stopped by SIGTERM"
                                            : "stopped by SIGHUP");
      return static_cast<int>(interrupted_by_ == SIGINT ? ExitCode::interrupted : ExitCode::terminated);
    }
    log_line(concat({"worker ", first->index, " failed first: ", first->how_it_ended()}));
    return first->end.code;
  }

  // Output that was lost may be the very purpose of the run.
  int check_output(int code) {
    for (const Worker& worker : workers_)
      if (const int error = worker.process.output_failure(); code == 0 && error != 0) {
        log_line(
            concat({"error: the workers have come to their end, but not all that they printed could be written to "
                    "stdout: ",
                    std::strerror(error)}));
        return static_cast<int>(ExitCode::failure);
      }
    return code;
  }

  const LaunchOptions options_;
  const IgnoredSignals ignored_;
  SignalPipe signals_;
  Descriptor null_;
  WorkerProgram program_{options_.program, options_.arguments, {}, null_, ignored_};
  std::vector<Worker> workers_;
  Accusations accusations_;
  Stage stage_ = Stage::running;
  Clock::time_point stage_began_{};
  Clock::time_point deadline_{};
  int ended_ = 0;
  bool has_restarted_ = false;
  int interrupted_by_ = 0;
  Clock::time_point interrupted_at_{};
  bool told_to_stop_ = false;
  bool killed_ = false;
};

}  // namespace detail

LOCKSTEP_INLINE int launch_workers(const LaunchOptions& options) {
  if (options.workers < 1)
    throw ConfigurationError(concat({"a cluster needs at least 1 worker, got ", options.workers}));
  if (options.restarts < 0)
    throw ConfigurationError(concat({"a worker is started again 0 or more times, got ", options.restarts}));
  return detail::Launcher(options).wait();
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#pragma once

#include <signal.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "lockstep/cluster/detail/worker_group.hpp"
#include "lockstep/cluster/detail/worker_process.hpp"
#include "lockstep/cluster/launcher.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// Adds a host, once for each of its workers. `where` names the place for an error.
LOCKSTEP_INLINE void add_host(std::string_view host, std::string_view number,
                              const std::string& where, std::vector<std::string>& hosts) {
  const auto refuse = [&](std::string_view why) {
    return ConfigurationError(concat(
        {where, " ", why, "; expected host, user@host or host:workers, as in a:2 or [fd00::1]:2"}));
  };
  const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty()) throw refuse("has no host");
  if (host.front() == '-') throw refuse("begins as an option of ssh does");
  for (const char c : host) {
    const bool allowed = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                         (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_' || c == '@' ||
                         c == '%' || (c == ':' && is_bracketed);
    if (!allowed) throw refuse("has a character that no host name may have");
  }
  int workers = 1;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), workers);
  if (!number.empty() &&
      (error != std::errc() || end != number.data() + number.size() || workers < 1))
    throw refuse("has no number of workers from 1 on");
  if (static_cast<std::size_t>(workers) + hosts.size() > 1024)
    throw refuse("makes more than 1024 workers");
  hosts.insert(hosts.end(), static_cast<std::size_t>(workers), std::string(host));
}

/// "host:workers" in its parts; the colons of an address in brackets belong to it.
LOCKSTEP_INLINE void add_entry(std::string_view entry, const std::string& where,
                               std::vector<std::string>& hosts) {
  const auto bracket = entry.rfind(']');
  const auto colon = entry.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon == std::string_view::npos) return add_host(entry, "", where, hosts);
  const std::string_view number = entry.substr(colon + 1);
  add_host(entry.substr(0, colon), number.empty() ? "none" : number, where, hosts);
}

}  // namespace detail

LOCKSTEP_INLINE std::vector<std::string> parse_hosts(std::string_view text) {
  std::vector<std::string> hosts;
  for (std::size_t begin = 0, end = 0; end != text.size(); begin = end + 1) {
    end = std::min(text.find(',', begin), text.size());
    const std::string_view entry = text.substr(begin, end - begin);
    if (entry.empty() && !text.empty())
      throw ConfigurationError(
          concat({"--hosts ", printable(text, 200),
                  ": an entry is empty; write hosts with commas, and without spaces, as in "
                  "--hosts a:2,b:2"}));
    detail::add_entry(
        entry,
        concat({"--hosts ", printable(text, 200), ": the entry '", printable(entry, 100), "'"}),
        hosts);
  }
  if (hosts.empty())
    throw ConfigurationError("--hosts names no host; expected hosts such as a:2,b:2");
  return hosts;
}

LOCKSTEP_INLINE std::vector<std::string> parse_host_file(std::string_view text) {
  std::vector<std::string> hosts;
  int number = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    const auto trim = [](std::string_view part) {
      const auto first = part.find_first_not_of(" \t\r");
      if (first == std::string_view::npos) return std::string_view();
      return part.substr(first, part.find_last_not_of(" \t\r") - first + 1);
    };
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const std::string where =
        concat({"line ", number, " of the host file, '", printable(line, 100), "',"});
    const auto space = line.find_first_of(" \t");
    if (space == std::string_view::npos) {
      detail::add_entry(line, where, hosts);
      continue;
    }
    const std::string_view rest = trim(line.substr(space));
    if (!rest.starts_with("slots="))
      throw ConfigurationError(
          concat({where, " has something other than slots=N behind the host"}));
    detail::add_host(line.substr(0, space), rest.size() > 6 ? rest.substr(6) : "none", where,
                     hosts);
  }
  if (hosts.empty())
    throw ConfigurationError("the host file names no host; expected lines such as: a slots=2");
  return hosts;
}

namespace detail {

/// Starts the workers, passes on what they print and the signals, and starts again or kills those
/// that ask for it.
class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options)
      : options_(options),
        workers_(options.workers, options.servers, options.restarts, options.program,
                 options.arguments, options.hosts, remote_start(options.hosts, options.ssh)),
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
    const bool again = phase_.is(Phase::running) && worker.restarts_left > 0 && !job_is_done() &&
                       (!worker.task.is_server || workers_.any_worker_lives());
    warn(is_killed_for(worker.name(), how) +
         (again ? " and" + started_again(worker.restarts_left - 1) : ""));
    worker.hung = std::move(how);
    worker.process.signal(SIGKILL);
  }

  // When a worker that is stopped counts as one that hangs. In an elastic job the others go on
  // without it, and it may come back.
  [[nodiscard]] std::optional<Clock::time_point> hangs_at(const Worker& worker) const {
    const auto since = worker.process.stopped_since();
    if (!since || worker.hung || !phase_.is(Phase::running) || elastic_.is_elastic())
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
      if (phase_.is(Phase::running) && !has_served) decide_about(worker);
      if (phase_.is(Phase::running) && elastic_.leaves_some_behind(workers_.all()))
        phase_.enter(Phase::failing, options_.failure_grace);
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
        phase_.enter(Phase::failing, options_.failure_grace);
    } else if (worker.end.code == 0) {
      if (worker.index == 0 && workers_.waits_for_the_chief())
        phase_.enter(Phase::failing, options_.failure_grace);
      else if (has_restarted_ && !worker.came_back && !job_is_done())
        worker.back_at = Clock::now() + std::chrono::seconds(3);
    } else if (worker.end.code >= 128 && worker.restarts_left > 0 && !job_is_done()) {
      restart(worker);
    } else if (worker.came_back) {
      worker.end.code = 0;  // it had ended with 0 before it was started again
    } else if (elastic_.goes_without(worker, workers_.all())) {
      if (!job_is_done()) tell_how_to_start_again(worker);
    } else {
      phase_.enter(Phase::failing, options_.failure_grace);
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
    return worker.back_at && phase_.is(Phase::running) && !job_is_done();
  }

  void restart(Worker& worker) {
    --worker.restarts_left;
    if (!worker.hung)
      warn(concat({worker.name(), " ended (", worker.how_it_ended(), ") and is",
                   started_again(worker.restarts_left)}));
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
    if (const auto due = phase_.due()) next = std::min(next, *due);
    if (const auto in_vain = all_wait_in_vain_since())
      next = std::min(next, *in_vain + HangDetector::time_to_settle);
    if (phase_.is(Phase::stopping) && stop_is_delayed())
      next = std::min(next, phase_.began() + options_.hung_grace);
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
      kill_hung(workers_[hung->worker], lost_to(workers_[hung->lost_to].name(), hung->why));
    for (Worker& worker : workers_)
      if (const auto due = hangs_at(worker); due && now >= *due)
        kill_hung(worker, was_stopped(options_.stopped_grace));
    if (!hang_detector_.due()) servers_end_.keep(now);
    if (phase_.is(Phase::stopping) && now >= phase_.began() + options_.hung_grace)
      kill_those_that_delay_the_stop();
    if (const auto in_vain = all_wait_in_vain_since();
        in_vain && now >= *in_vain + HangDetector::time_to_settle)
      phase_.end_at(now);
    if (const auto due = phase_.due(); !due || now < *due) return;
    if (phase_.is(Phase::failing)) {
      told_to_stop_ = true;
      tell_to_stop(SIGTERM);
    } else {
      kill();
    }
  }

  [[nodiscard]] std::optional<Clock::time_point> all_wait_in_vain_since() const {
    return phase_.is(Phase::failing) ? workers_.all_wait_in_vain_since(phase_.began())
                                     : std::nullopt;
  }

  [[nodiscard]] bool stop_is_delayed() const {
    return workers_.any([](const Worker& worker) { return worker.delays_stop(); });
  }
  void kill_those_that_delay_the_stop() {
    for (Worker& worker : workers_) {
      if (!worker.delays_stop()) continue;
      warn(worker.name() + delays_the_stop);
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
    if (phase_.is(Phase::running) || phase_.is(Phase::failing))
      tell_to_stop(signal == SIGINT ? SIGINT : SIGTERM);
  }

  void tell_to_stop(int signal) {
    for (Worker& worker : workers_) worker.keeps_others_waiting = false;
    workers_.signal_workers(signal);
    workers_.signal_workers(SIGCONT);  // for those that are stopped
    phase_.enter(Phase::stopping, options_.stop_grace);
  }

  void kill() {
    killed_ = true;
    workers_.signal_all(SIGKILL);
    phase_.enter(Phase::killed, {});
  }

  const LaunchOptions options_;
  SignalPipe signals_;
  WorkerGroup workers_;
  ServersEnd servers_end_;
  HangDetector hang_detector_;
  ElasticJob elastic_;
  LaunchPhase phase_;
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

}}  // namespace lockstep

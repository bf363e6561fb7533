// All workers of a launcher, and its parameter servers: which hang, when they end, and how.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/cluster/detail/worker_process.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/descriptor.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A worker that others have lost although its process exists: stopped, deadlocked, or cut off.
struct HungWorker {
  int worker = -1;
  int lost_to = -1;   ///< one of those that have lost it
  std::string why{};  ///< in that peer's words
};

/// Collects what the workers of a launcher say about each other. Accusations against a worker that
/// ends by itself are dropped. Times are of the clock that the launcher and its workers share.
class HangDetector {
 public:
  using Clock = std::chrono::steady_clock;

  /// This long after the first accusation, the other workers have reported, and a process that was
  /// about to end has ended.
  static constexpr std::chrono::milliseconds time_to_settle{1000};

  explicit HangDetector(std::size_t workers) : places_(workers) {}

  /// The worker's process begins, as its first one or as a successor.
  void began(int worker, Clock::time_point now) {
    Place& place = at(worker);
    place.lives = true;
    place.is_successor = place.began.has_value();
    place.began = now;
    place.met = Clock::time_point::max();
    drop_those_against(worker);
  }
  void ended(int worker) {
    at(worker).lives = false;
    drop_those_against(worker);
  }
  /// The worker says that all workers were connected at that time.
  void met(int worker, Clock::time_point time) {
    at(worker).met = time;
    at(worker).accuses.reset();
  }
  /// `by` has lost a worker that it was connected with. This does not accuse that worker's
  /// successor, which was not connected yet.
  void lost(int by, int worker, std::string why, Clock::time_point now) {
    if (at(worker).began && *at(worker).began <= at(by).met)
      accuse(by, worker, std::move(why), now);
  }
  /// `by` has waited for a worker in a start-up that did not come. That worker may just be slow: it
  /// is accused when a successor of `by` misses it again.
  void missed(int by, int worker, std::string why, Clock::time_point now) {
    if (at(by).is_successor && at(worker).began && *at(worker).began < *at(by).began)
      accuse(by, worker, std::move(why), now);
  }

  /// When to ask for the verdict().
  [[nodiscard]] std::optional<Clock::time_point> due() const {
    std::optional<Clock::time_point> first;
    for (const Place& place : places_)
      if (place.accuses && (!first || place.accuses->since + time_to_settle < *first))
        first = place.accuses->since + time_to_settle;
    return first;
  }

  /// The worker that most others have lost; in a tie, the one that the lowest rank has lost. A
  /// worker that has itself lost another does not hang. Drops all accusations.
  [[nodiscard]] std::optional<HungWorker> verdict(Clock::time_point now) {
    if (const auto time = due(); !time || now < *time) return std::nullopt;
    std::optional<HungWorker> hung;
    std::ptrdiff_t most = 0;
    for (std::size_t by = 0; by < places_.size(); ++by) {
      const auto& accusation = places_[by].accuses;
      if (!accusation || at(accusation->worker).accuses) continue;
      const auto votes = std::count_if(places_.begin(), places_.end(), [&](const Place& place) {
        return place.accuses && place.accuses->worker == accusation->worker;
      });
      if (votes <= most) continue;
      most = votes;
      hung = HungWorker{
          .worker = accusation->worker, .lost_to = static_cast<int>(by), .why = accusation->why};
    }
    for (Place& place : places_) place.accuses.reset();
    return hung;
  }

 private:
  struct Accusation {
    int worker;
    std::string why;
    Clock::time_point since;
  };
  struct Place {
    bool lives = false;
    bool is_successor = false;
    std::optional<Clock::time_point> began{};
    Clock::time_point met = Clock::time_point::max();  // unknown: may mean any process
    std::optional<Accusation> accuses{};
  };

  [[nodiscard]] Place& at(int worker) { return places_[static_cast<std::size_t>(worker)]; }

  void accuse(int by, int worker, std::string why, Clock::time_point now) {
    if (by != worker && at(worker).lives && !at(by).accuses)
      at(by).accuses = {worker, std::move(why), now};
  }
  void drop_those_against(int worker) {
    for (Place& place : places_)
      if (place.accuses && place.accuses->worker == worker) place.accuses.reset();
  }

  std::vector<Place> places_;
};

/// The workers, by index, behind them the servers, and what they run. Their processes end with it.
class WorkerGroup {
 public:
  using Clock = LaunchedWorker::Clock;

  /// Takes a port for each process on this machine; starts none. `program` runs with `arguments`,
  /// and each process may be started again `restarts` times. `hosts`: of each worker, or empty;
  /// `remote`: how they are started there.
  WorkerGroup(int workers, int servers, int restarts, std::string program,
              std::vector<std::string> arguments, const std::vector<std::string>& hosts = {},
              RemoteStart remote = {})
      : null_(Descriptor::checked(::open("/dev/null", O_RDONLY | O_CLOEXEC), "open /dev/null")),
        program_{std::move(program),
                 std::move(arguments),
                 {},
                 null_,
                 ignored_,
                 std::move(remote),
                 names_run(hosts) ? new_job_name() : ""} {
    workers_.reserve(static_cast<std::size_t>(workers) + static_cast<std::size_t>(servers));
    std::string of_workers, of_servers;
    const auto add_address = [&](std::string& to) {
      to += concat({to.empty() ? "" : ",", "\"", workers_.back().process.address(), "\""});
    };
    for (int index = 0; index < workers; ++index) {
      workers_.emplace_back(index, restarts,
                            hosts.empty() ? "" : hosts[static_cast<std::size_t>(index)]);
      add_address(of_workers);
    }
    for (int index = 0; index < servers; ++index) {
      workers_.emplace_back(LaunchedTask{.index = index, .is_server = true}, workers + index,
                            restarts);
      add_address(of_servers);
    }
    program_.cluster = concat({"\"worker\":[", of_workers, "]"});
    if (servers > 0) program_.cluster += concat({",\"ps\":[", of_servers, "]"});
  }
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;
  ~WorkerGroup() {
    for (LaunchedWorker& worker : workers_) worker.process.end();
    ignored_.restore();
  }

  /// The run name that the launcher and its workers log; empty if the environment sets it, or none
  /// is needed.
  [[nodiscard]] const std::string& run() const noexcept {
    return program_.run.empty() ? program_.remote.job : program_.run;
  }

  void start_all() {
    for (LaunchedWorker& worker : workers_) worker.process.start(program_);
  }
  void start_again(LaunchedWorker& worker) { worker.start_again(program_); }
  /// None will be started again.
  void close_ports() {
    for (LaunchedWorker& worker : workers_) worker.process.close_port();
  }

  [[nodiscard]] auto begin() noexcept { return workers_.begin(); }
  [[nodiscard]] auto end() noexcept { return workers_.end(); }
  [[nodiscard]] auto begin() const noexcept { return workers_.begin(); }
  [[nodiscard]] auto end() const noexcept { return workers_.end(); }
  [[nodiscard]] LaunchedWorker& operator[](int index) {
    return workers_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] const std::vector<LaunchedWorker>& all() const noexcept { return workers_; }
  /// nullptr when none has this address.
  [[nodiscard]] LaunchedWorker* find(std::string_view address) {
    for (LaunchedWorker& worker : workers_)
      if (worker.process.address() == address) return &worker;
    return nullptr;
  }

  /// The chief has ended with 0: the job is done.
  [[nodiscard]] bool chief_has_succeeded() const { return workers_.front().has_succeeded(); }
  template <class Predicate>
  [[nodiscard]] bool any(Predicate predicate) const {
    return std::any_of(workers_.begin(), workers_.end(), predicate);
  }
  [[nodiscard]] bool any_lives() const {
    return any([](const LaunchedWorker& worker) { return worker.process.lives(); });
  }

  [[nodiscard]] bool has_servers() const { return workers_.back().task.is_server; }
  [[nodiscard]] bool any_worker_lives() const {
    return any([](const LaunchedWorker& worker) {
      return worker.process.lives() && !worker.task.is_server;
    });
  }
  [[nodiscard]] bool all_workers_have_succeeded() const {
    return !any([](const LaunchedWorker& worker) {
      return !worker.task.is_server && !worker.has_succeeded();
    });
  }

  void signal_all(int number) const {
    for (const LaunchedWorker& worker : workers_) worker.process.signal(number);
  }
  void signal_workers(int number) const {
    for (const LaunchedWorker& worker : workers_)
      if (!worker.task.is_server) worker.process.signal(number);
  }
  void signal_servers(int number) const {
    for (const LaunchedWorker& worker : workers_)
      if (worker.task.is_server) worker.process.signal(number);
  }

  /// The chief leaves last. A worker that was killed just before that, and was started again, would
  /// wait for a chief that never comes. (Not with servers: they have all that it needs.)
  [[nodiscard]] bool waits_for_the_chief() const {
    return !has_servers() && any([](const LaunchedWorker& worker) {
      return worker.process.lives() && worker.was_started_again;
    });
  }
  /// In a run that has failed at `since`: the time since which every living worker has lost another
  /// one and waits for a successor that does not come.
  [[nodiscard]] std::optional<Clock::time_point> all_wait_in_vain_since(
      Clock::time_point since) const {
    for (const LaunchedWorker& worker : workers_) {
      if (!worker.process.lives() || worker.task.is_server) continue;
      if (!worker.lost_another) return std::nullopt;
      since = std::max(since, *worker.lost_another);
    }
    return since;
  }

  /// The variables that the library reads, for a shell; but no secret, which others would see.
  [[nodiscard]] static std::string own_variables() {
    std::string text;
    for (const char* const name :
         {"LOCKSTEP_CLUSTER_SECRET", "LOCKSTEP_CLUSTER_SECRET_FILE", "LOCKSTEP_LOG",
          "LOCKSTEP_MAX_ISA", "LOCKSTEP_METRICS_ADDRESS", "LOCKSTEP_METRICS_PORT",
          "LOCKSTEP_RUN_ID", "LOCKSTEP_TLS", "LOCKSTEP_TLS_AUTHORITY", "LOCKSTEP_TLS_CERTIFICATE",
          "LOCKSTEP_TLS_KEY"}) {
      const char* const value = std::getenv(name);
      const bool is_secret = std::string_view(name) == "LOCKSTEP_CLUSTER_SECRET";
      if (value != nullptr) text += concat({name, "=", is_secret ? "..." : shell_word(value), " "});
    }
    return text;
  }

  /// What starts a worker's successor by hand, in a shell; nothing for one on another host.
  [[nodiscard]] std::string command(const LaunchedWorker& worker) const {
    if (worker.process.is_remote()) return {};
    std::error_code error;
    std::string text = concat(
        {"cd ", shell_word(std::filesystem::current_path(error).string()), " && ", own_variables(),
         program_.run.empty() ? "" : concat({"LOCKSTEP_RUN_ID=", program_.run, " "}),
         "TF_CONFIG=", shell_word(worker.task.tf_config(program_.cluster)), " ",
         shell_word(program_to_run(program_.path))});
    for (std::size_t i = 1; i < program_.arguments.size(); ++i)
      text += " " + shell_word(program_.arguments[i]);
    return text;
  }

  /// Waits for a signal, a note or output, at most until then, and shows the output.
  void poll(int signals, Clock::time_point until) {
    std::vector<pollfd> watched{{signals, POLLIN, 0}};
    std::vector<PrefixedStream*> streams;
    for (LaunchedWorker& worker : workers_)
      for (PrefixedStream& stream : worker.process.output())
        if (stream.source().is_open()) {
          watched.push_back({stream.source().get(), POLLIN, 0});
          streams.push_back(&stream);
        }
    for (const LaunchedWorker& worker : workers_)
      if (worker.process.lives()) watched.push_back({worker.process.note_descriptor(), POLLIN, 0});
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (::poll(watched.data(), watched.size(),
               static_cast<int>(std::clamp<long long>(left + 1, 0, 60'000))) <= 0)
      return;
    for (std::size_t i = 0; i < streams.size(); ++i)
      if (watched[i + 1].revents != 0) streams[i]->pump();
  }

  /// Shows the rest of the output. Waits a second for more, because a worker's own child may hold
  /// the stream open.
  void finish_output(int signals) {
    const auto end = Clock::now() + std::chrono::seconds(1);
    while (Clock::now() < end &&
           any([](const LaunchedWorker& worker) { return worker.has_open_output(); }))
      poll(signals, end);
    for (LaunchedWorker& worker : workers_) worker.process.finish_output();
  }

 private:
  // On other hosts, the job that meets has one already.
  [[nodiscard]] static bool names_run(const std::vector<std::string>& hosts) {
    return hosts.empty() && logs_are_structured() && given_run_name().empty();
  }

  const IgnoredSignals ignored_;
  Descriptor null_;
  WorkerProgram program_;
  std::vector<LaunchedWorker> workers_;
};

enum class Phase {
  running,
  failing,   ///< one has failed, and the others may end by themselves
  stopping,  ///< they were told to
  killed
};

/// The phase of a launcher, and its deadline, if it has one.
class LaunchPhase {
 public:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] bool is(Phase phase) const noexcept { return phase_ == phase; }
  [[nodiscard]] Clock::time_point began() const noexcept { return began_; }
  /// When the next phase comes.
  [[nodiscard]] std::optional<Clock::time_point> due() const noexcept {
    if (is(Phase::failing) || is(Phase::stopping)) return deadline_;
    return std::nullopt;
  }

  void enter(Phase phase, std::chrono::milliseconds grace) {
    phase_ = phase;
    began_ = Clock::now();
    deadline_ = began_ + grace;
  }
  /// There is nothing left to wait for.
  void end_at(Clock::time_point now) noexcept { deadline_ = now; }

 private:
  Phase phase_ = Phase::running;
  Clock::time_point began_{};
  Clock::time_point deadline_{};
};

/// The worker that is to blame: the first one that failed by itself, or else the first that failed
/// at all. nullptr when none has failed. Those that an elastic job has left out, and gone on, come
/// after those that fail by themselves, and do not count if it has ended.
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

/// In a world, workers have other addresses than the launcher knows. So each worker tells it by
/// number which ones are at work together.
class ElasticJob {
 public:
  /// A note "world 3 0 2": workers 0 and 2 are at work in world 3. Those of older worlds may come
  /// later. (But if all of its members have ended meanwhile, it is of their successors, which count
  /// worlds anew, even if a worker of the last one still hangs.)
  void heed(const WorkerNote& note) {
    std::int64_t epoch = 0;
    std::from_chars(note.about.data(), note.about.data() + note.about.size(), epoch);
    is_elastic_ = true;
    std::vector<int> members;
    for (std::string_view rest = note.text; !rest.empty();) {
      int member = -1;
      const char* const end = rest.data() + rest.size();
      const char* const next = std::from_chars(rest.data(), end, member).ptr;
      if (member >= 0) members.push_back(member);
      rest = next == end ? std::string_view()
                         : std::string_view(next + 1, static_cast<std::size_t>(end - next - 1));
    }
    const bool is_of_successors =
        !members.empty() && std::ranges::all_of(members, [this](int member) {
          return std::ranges::find(ended_, member) != ended_.end();
        });
    if (epoch <= epoch_ && !is_of_successors) return;
    epoch_ = epoch;
    members_ = std::move(members);
    ended_.clear();
    size_ = members_.size();
  }
  /// The process of this worker has ended. (When all have, their successors count worlds anew.)
  void ended(int worker) {
    if (std::erase(members_, worker) > 0) ended_.push_back(worker);
    if (members_.empty()) epoch_ = 0;
  }

  [[nodiscard]] bool is_elastic() const noexcept { return is_elastic_; }

  /// Whether a worker has come to the end, which all of a world do together.
  [[nodiscard]] bool is_done(const std::vector<LaunchedWorker>& workers) const {
    if (!is_elastic_) return false;
    for (const LaunchedWorker& worker : workers)
      if (!worker.task.is_server && worker.has_succeeded()) return true;
    return false;
  }
  /// Whether those that live can only wait: they came late, or were left out because they hung.
  [[nodiscard]] bool leaves_some_behind(const std::vector<LaunchedWorker>& workers) const {
    bool any = false;
    for (const LaunchedWorker& worker : workers) {
      if (worker.task.is_server || !worker.process.lives()) continue;
      if (std::find(members_.begin(), members_.end(), worker.index) != members_.end()) return false;
      any = true;
    }
    return any && is_done(workers);
  }
  /// For a message: what becomes of the job without a worker that has ended. More than half of a
  /// world form the next one.
  [[nodiscard]] std::string_view outlook() const noexcept {
    return epoch_ == 0 || 2 * members_.size() > size_ ? go_on_without_it : are_too_few_without_it;
  }
  /// Whether the job goes on, or has ended, without this worker, which has ended.
  [[nodiscard]] bool goes_without(const LaunchedWorker& worker,
                                  const std::vector<LaunchedWorker>& workers) const {
    if (!is_elastic_ || worker.task.is_server || worker.end.code < 128 || worker.has_agreed_to_stop)
      return false;
    return std::ranges::any_of(workers, [](const LaunchedWorker& other) {
      return !other.task.is_server && (other.process.lives() || other.has_succeeded());
    });
  }

 private:
  bool is_elastic_ = false;
  std::int64_t epoch_ = 0;
  std::vector<int> members_;  ///< of the world that still live
  std::vector<int> ended_;    ///< the others of it
  std::size_t size_ = 0;      ///< of that world
};

/// Servers end by themselves when all workers have said goodbye. Those that do not are told to, and
/// killed when that does not help.
class ServersEnd {
 public:
  using Clock = WorkerGroup::Clock;

  /// `to_leave`: how long they have when all workers have ended well; otherwise they are told at
  /// once. `to_stop`: how long those that were told have.
  ServersEnd(const WorkerGroup& group, std::chrono::milliseconds to_leave,
             std::chrono::milliseconds to_stop)
      : group_(group), to_leave_(to_leave), to_stop_(to_stop) {}

  /// Does what is due, once no worker lives.
  void keep(Clock::time_point now) {
    if (group_.any_worker_lives() || !group_.any_lives()) return;
    const bool is_well = group_.all_workers_have_succeeded();
    if (!deadline_) deadline_ = now + (is_well ? to_leave_ : std::chrono::milliseconds(0));
    if (now < *deadline_) return;
    if (has_told_) {
      group_.signal_servers(SIGKILL);
    } else {
      if (is_well)
        log_line("all workers have ended, and not all parameter servers: these are told to stop");
      group_.signal_servers(SIGTERM);
      group_.signal_servers(SIGCONT);  // for those that are stopped
    }
    has_told_ = true;
    deadline_ = now + to_stop_;
  }
  /// When to call keep() again.
  [[nodiscard]] std::optional<Clock::time_point> due() const noexcept { return deadline_; }
  [[nodiscard]] bool has_told() const noexcept { return has_told_; }

 private:
  const WorkerGroup& group_;
  const std::chrono::milliseconds to_leave_;
  const std::chrono::milliseconds to_stop_;
  std::optional<Clock::time_point> deadline_;
  bool has_told_ = false;
};

}}}  // namespace lockstep::detail

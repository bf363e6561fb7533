// All workers of a launcher, and its parameter servers.
#pragma once

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/cluster/detail/launched_worker.hpp"
#include "lockstep/cluster/detail/remote_worker.hpp"
#include "lockstep/cluster/detail/signal_pipe.hpp"
#include "lockstep/cluster/detail/worker_process.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/descriptor.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

  /// The name of the run in the log, as its processes have it too; empty where that of the
  /// environment stands, or none is needed.
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

  /// The chief leaves last. A worker that was killed just before that, and was started again, waits
  /// for it in vain. (With servers it does not: these have all that it needs.)
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

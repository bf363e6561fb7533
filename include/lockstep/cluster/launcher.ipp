#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/cluster/descriptor.ipp"
#include "lockstep/cluster/launcher.hpp"
#include "lockstep/cluster/prefixed_stream.ipp"
#include "lockstep/cluster/signal_pipe.ipp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX has the program declare it

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options)
      : options_(options), workers_(static_cast<std::size_t>(options.workers)) {
    std::fflush(nullptr);  // what this process has printed comes before what its workers print
    for (Worker& worker : workers_) {
      std::uint16_t port = 0;
      worker.listener = listen(port);
      worker.restarts_left = options.restarts;
      addresses_ += concat({addresses_.empty() ? "" : ",", "\"127.0.0.1:", port, "\""});
    }
    null_ = Descriptor::checked(::open("/dev/null", O_RDONLY | O_CLOEXEC), "open /dev/null");
    try {
      for (Worker& worker : workers_) start(worker);
    } catch (...) {
      end_all();
      throw;
    }
    if (options.restarts == 0)
      for (Worker& worker : workers_) worker.listener.close();
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  ~Launcher() { end_all(); }

  int wait() {
    while (std::any_of(workers_.begin(), workers_.end(), [](const Worker& worker) { return worker.lives; })) {
      poll(next_deadline());
      for (int signal; (signal = signals_.take()) != 0;)
        if (signal != SIGCHLD) pass_on(signal);
      reap();
      keep_deadlines();
    }
    // A worker's own child may hold its output open.
    const auto end = Clock::now() + std::chrono::seconds(1);
    while (Clock::now() < end && std::any_of(workers_.begin(), workers_.end(), has_output)) poll(end);
    for (Worker& worker : workers_)
      for (PrefixedStream& stream : worker.output)
        if (stream.source().is_open()) stream.finish();
    return result();
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Worker {
    pid_t process = -1;
    bool lives = false;
    int code = 0;          // as a shell would say it
    int signal = 0;        // that killed it
    int order = 0;         // the first one that ended is 1
    bool by_peer = false;  // its failure is another worker's
    bool by_launcher = false;
    std::optional<Clock::time_point>
        back_at{};           // it has ended well, and is started again then, unless the chief has too
    bool came_back = false;  // for that reason
    bool was_started_again = false;
    int restarts_left = 0;
    Descriptor listener;  // kept, so that a successor finds its port and the peers that wait there
    Descriptor note;
    PrefixedStream output[2];
  };

  static bool has_output(const Worker& worker) {
    return worker.output[0].source().is_open() || worker.output[1].source().is_open();
  }

  static Descriptor listen(std::uint16_t& port) {
    Descriptor listener = Descriptor::checked(::socket(AF_INET, SOCK_STREAM, 0), "make a socket");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener.get(), 1024) != 0 ||
        ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw Error(concat({"cannot listen on a port of 127.0.0.1: ", std::strerror(errno)}));
    port = ntohs(address.sin_port);
    return listener;
  }

  [[nodiscard]] int index_of(const Worker& worker) const { return static_cast<int>(&worker - workers_.data()); }

  void start(Worker& worker) {
    const int index = index_of(worker);
    const int listener = worker.listener.get();
    Pipe out, err, note;
    const std::string prefix = concat({"[worker ", index, "] "});
    worker.output[0] = PrefixedStream(std::move(out.read), STDOUT_FILENO, prefix);
    worker.output[1] = PrefixedStream(std::move(err.read), STDERR_FILENO, prefix);
    worker.note = std::move(note.read);

    // Between fork and exec only system calls are safe, so that everything is prepared here.
    std::vector<std::string> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      if (!text.starts_with("TF_CONFIG=") && !text.starts_with("LOCKSTEP_LISTEN_FD=") &&
          !text.starts_with("LOCKSTEP_NOTE_FD="))
        environment.emplace_back(text);
    }
    environment.push_back(concat({"TF_CONFIG={\"cluster\":{\"worker\":[", addresses_,
                                  "]},\"task\":{\"type\":\"worker\",\"index\":", index, "}}"}));
    environment.push_back(concat({"LOCKSTEP_LISTEN_FD=", listener}));
    environment.push_back(concat({"LOCKSTEP_NOTE_FD=", note.write.get()}));
    std::vector<std::string> arguments = options_.arguments;
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> result;
      result.reserve(texts.size() + 1);
      for (std::string& text : texts) result.push_back(text.data());
      result.push_back(nullptr);
      return result;
    };
    const auto argv = pointers(arguments);
    const auto envp = pointers(environment);
    const pid_t parent = ::getpid();

    // A signal that reaches the child before exec is the child's, and must not come out of this process's pipe.
    const BlockedSignals blocked;
    const pid_t process = ::fork();
    if (process < 0) throw Error(concat({"cannot start a worker: ", std::strerror(errno)}));
    if (process == 0) {
      SignalPipe::let_go();
      blocked.release();
      ::setpgid(0, 0);
#if defined(__linux__)
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
      if (::getppid() != parent) ::_exit(1);
      ::dup2(null_.get(), STDIN_FILENO);
      ::dup2(out.write.get(), STDOUT_FILENO);
      ::dup2(err.write.get(), STDERR_FILENO);
      ::fcntl(listener, F_SETFD, 0);
      ::fcntl(note.write.get(), F_SETFD, 0);
      ::execve(options_.program.c_str(), argv.data(), envp.data());
      constexpr std::string_view text = "cannot run the program\n";
      (void)!::write(STDERR_FILENO, text.data(), text.size());
      ::_exit(127);
    }
    ::setpgid(process, process);
    worker.process = process;
    worker.lives = true;
  }

  void poll(Clock::time_point until) {
    std::vector<pollfd> watched{{signals_.descriptor(), POLLIN, 0}};
    std::vector<PrefixedStream*> streams;
    for (Worker& worker : workers_)
      for (PrefixedStream& stream : worker.output)
        if (stream.source().is_open()) {
          watched.push_back({stream.source().get(), POLLIN, 0});
          streams.push_back(&stream);
        }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (::poll(watched.data(), watched.size(), static_cast<int>(std::clamp<long long>(left + 1, 0, 60'000))) <= 0)
      return;
    for (std::size_t i = 0; i < streams.size(); ++i)
      if (watched[i + 1].revents != 0) streams[i]->pump();
  }

  void reap() {
    for (Worker& worker : workers_) {
      int status = 0;
      if (!worker.lives || ::waitpid(worker.process, &status, WNOHANG) != worker.process) continue;
      worker.lives = false;
      worker.order = ++ended_;
      worker.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      worker.code = WIFSIGNALED(status) ? 128 + worker.signal : WEXITSTATUS(status);
      char byte = 0;
      worker.by_peer = worker.code == static_cast<int>(ExitCode::lost_peer) || ::read(worker.note.get(), &byte, 1) == 1;
      worker.by_launcher = killed_ || told_to_stop_;
      if (stage_ == Stage::running) decide_about(worker);
    }
  }

  void decide_about(Worker& worker) {
    if (worker.code == 0) {
      if (leaves_somebody_behind(worker))
        enter(Stage::failing, options_.failure_grace);
      else if (has_restarted_ && !worker.came_back && !job_is_done())
        worker.back_at = Clock::now() + std::chrono::seconds(3);
    } else if (worker.code >= 128 && worker.restarts_left > 0 && !job_is_done()) {
      restart(worker);
    } else if (worker.came_back) {
      worker.code = 0;  // it had ended well, and came back in vain
    } else {
      enter(Stage::failing, options_.failure_grace);
    }
  }

  // The chief leaves last. Whoever was killed just before its end, and was started again, would wait for it in vain.
  [[nodiscard]] bool leaves_somebody_behind(const Worker& worker) const {
    return index_of(worker) == 0 && std::any_of(workers_.begin(), workers_.end(), [](const Worker& other) {
             return other.lives && other.was_started_again;
           });
  }

  [[nodiscard]] bool job_is_done() const { return !workers_.front().lives && workers_.front().code == 0; }

  // A worker that has ended well is needed once more when the chief, which leaves last, was killed before it had left.
  [[nodiscard]] bool is_wanted_back(const Worker& worker) const {
    return worker.back_at && stage_ == Stage::running && !job_is_done();
  }

  void restart(Worker& worker) {
    --worker.restarts_left;
    log_line(concat({"worker ", index_of(worker), " ended (", end_of(worker), ") and is started again; ",
                     worker.restarts_left, " restarts left"}));
    has_restarted_ = true;
    start_again(worker);
    for (Worker& other : workers_)
      if (!other.lives && other.code == 0) start_again(other);
  }

  void start_again(Worker& worker) {
    for (PrefixedStream& stream : worker.output) {
      for (int i = 0; i < 64 && stream.source().is_open() && stream.pump(); ++i) {  // what a pipe holds, and more
      }
      if (stream.source().is_open()) stream.finish();
    }
    worker.code = worker.signal = worker.order = 0;
    worker.by_peer = worker.by_launcher = false;
    worker.back_at.reset();
    worker.came_back = false;
    worker.was_started_again = true;
    start(worker);
  }

  static std::string end_of(const Worker& worker) {
    return worker.signal == 0 ? concat({"exit code ", worker.code})
                              : concat({"killed by signal ", worker.signal, " (", ::strsignal(worker.signal), ")"});
  }

  // What is done about the workers that live, when the deadline has come.
  enum class Stage { running, failing, stopping, killed };

  void enter(Stage stage, std::chrono::milliseconds grace) {
    stage_ = stage;
    deadline_ = Clock::now() + grace;
  }

  [[nodiscard]] Clock::time_point next_deadline() const {
    for (const Worker& worker : workers_)
      if (is_wanted_back(worker)) return *worker.back_at;
    return stage_ == Stage::failing || stage_ == Stage::stopping ? deadline_ : Clock::now() + std::chrono::minutes(1);
  }

  void keep_deadlines() {
    for (Worker& worker : workers_)
      if (is_wanted_back(worker) && Clock::now() >= *worker.back_at) {
        start_again(worker);
        worker.came_back = true;
      }
    if ((stage_ != Stage::failing && stage_ != Stage::stopping) || Clock::now() < deadline_) return;
    if (stage_ == Stage::failing) {
      told_to_stop_ = true;
      send(SIGTERM);
      enter(Stage::stopping, options_.stop_grace);
    } else {
      kill();
    }
  }

  void pass_on(int signal) {
    if (interrupted_by_ != 0) return kill();
    interrupted_by_ = signal;
    send(signal);
    if (stage_ == Stage::running || stage_ == Stage::failing) enter(Stage::stopping, options_.stop_grace);
  }

  void kill() {
    killed_ = true;
    send(SIGKILL);
    enter(Stage::killed, {});
  }

  void end_all() {
    send(SIGKILL);
    for (Worker& worker : workers_)
      if (std::exchange(worker.lives, false)) ::waitpid(worker.process, nullptr, 0);
  }

  void send(int signal) {
    for (const Worker& worker : workers_)
      if (worker.lives) ::kill(signal == SIGKILL ? -worker.process : worker.process, signal);
  }

  int result() {
    // The cause is the first worker that failed by itself; if there is none, the first that failed at all.
    const Worker* first = nullptr;
    const auto rank = [](const Worker& worker) {
      return (worker.by_launcher ? 2'000'000 : 0) + (worker.by_peer ? 1'000'000 : 0) + worker.order;
    };
    for (const Worker& worker : workers_)
      if (worker.code != 0 && (first == nullptr || rank(worker) < rank(*first))) first = &worker;
    if (first == nullptr || (job_is_done() && first->by_launcher && interrupted_by_ == 0)) return 0;
    if (interrupted_by_ != 0) {
      log_line(interrupted_by_ == SIGINT ? "stopped by SIGINT" : "stopped by SIGTERM");
      return 128 + interrupted_by_;
    }
    log_line(concat({"worker ", index_of(*first), " failed first: ", end_of(*first)}));
    return first->code;
  }

  const LaunchOptions options_;
  SignalPipe signals_;
  Descriptor null_;
  std::string addresses_;  // of all workers, as in TF_CONFIG
  std::vector<Worker> workers_;
  Stage stage_ = Stage::running;
  Clock::time_point deadline_{};
  int ended_ = 0;
  bool has_restarted_ = false;
  int interrupted_by_ = 0;
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

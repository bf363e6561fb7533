// A process that a launcher starts, here or on another host: its port, its life and its output.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/cluster/launchers/known_launchers.hpp"
#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/descriptor.hpp"
#include "lockstep/net/listener.hpp"

#if LOCKSTEP_LINUX
#include <sys/prctl.h>
#endif

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Keeps SIGINT, SIGTERM, SIGHUP and SIGUSR1 from this thread, and from a child that it forks,
/// until it is released.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    sigset_t blocked;
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, SIGINT);
    ::sigaddset(&blocked, SIGTERM);
    ::sigaddset(&blocked, SIGHUP);
    ::sigaddset(&blocked, SIGUSR1);
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~BlockedSignals() { release(); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  void release() const noexcept { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

/// Makes SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGCHLD readable bytes, while it lives.
class SignalPipe {
 public:
  SignalPipe() {
    ::fcntl(pipe_.write.get(), F_SETFL, O_NONBLOCK);
    target() = pipe_.write.get();
    struct sigaction action {};
    action.sa_handler = [](int signal) {
      const int saved = errno;
      const char byte = static_cast<char>(signal);
      (void)!::write(target(), &byte, 1);
      errno = saved;
    };
    action.sa_flags = SA_RESTART;
    for (std::size_t i = 0; i < count; ++i) {
      ::sigaction(signals[i], nullptr, &old_[i]);
      // A program that a shell has started in the background goes on ignoring Ctrl-C, and a program
      // under nohup SIGHUP; one that handles SIGUSR1 itself keeps its handler.
      if (signals[i] == SIGCHLD || old_[i].sa_handler == SIG_DFL ||
          (signals[i] != SIGUSR1 && old_[i].sa_handler != SIG_IGN))
        ::sigaction(signals[i], &action, nullptr);
    }
  }
  ~SignalPipe() {
    for (std::size_t i = 0; i < count; ++i) ::sigaction(signals[i], &old_[i], nullptr);
  }
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return pipe_.read.get(); }
  /// The next signal, 0 when there is none.
  [[nodiscard]] int take() const noexcept {
    char byte = 0;
    return ::read(pipe_.read.get(), &byte, 1) == 1 ? byte : 0;
  }
  /// In a forked child, which shares the pipe: signals do again what they do by default.
  static void let_go() noexcept {
    for (const int signal : signals) {
      struct sigaction action {};
      ::sigaction(signal, nullptr, &action);
      if (action.sa_handler != SIG_IGN) ::signal(signal, SIG_DFL);
    }
  }

 private:
  static constexpr std::size_t count = 5;
  static constexpr int signals[count] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD};
  static int& target() noexcept {
    static int descriptor = -1;
    return descriptor;
  }

  Pipe pipe_;
  struct sigaction old_[count];
};

/// From construction until restore(), a write to a reader that has gone (SIGPIPE) or beyond the
/// limit of a file's size (SIGXFSZ) fails, instead of ending the process and its training. Handlers
/// that the program has set stay.
class IgnoredSignals {
 public:
  IgnoredSignals() noexcept {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    for (std::size_t i = 0; i < signals.size(); ++i) {
      ::sigaction(signals[i], nullptr, &former_[i]);
      if (former_[i].sa_handler == SIG_DFL) ::sigaction(signals[i], &ignore, nullptr);
    }
  }

  /// May be called in a forked child.
  void restore() const noexcept {
    for (std::size_t i = 0; i < signals.size(); ++i)
      if (former_[i].sa_handler == SIG_DFL) ::sigaction(signals[i], &former_[i], nullptr);
  }

 private:
  static constexpr std::array signals{SIGPIPE, SIGXFSZ};
  std::array<struct sigaction, signals.size()> former_{};
};

/// What all workers on other hosts have in common.
struct RemoteStart {
  std::vector<std::string> ssh{};  ///< the command and its options
  std::string folder{};            ///< in which they run, on each host
  std::string meeting{};           ///< "host:port", where rank 0 waits
  std::string job{};               ///< differs from that of any other launcher
  std::vector<std::string>
      environment{};  ///< "NAME=value" without a line break: the launcher's own
  int workers = 0;
};

/// Each note of a worker on another host comes as a line of its standard error that begins so.
inline constexpr std::string_view remote_note_mark = "\036lockstep-note ";

/// For a shell: one word, whatever it holds.
[[nodiscard, gnu::cold]] inline std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'')
      word += "'\\''";
    else
      word += c;
  }
  return word + "'";
}

/// The words of a command line, which spaces separate.
[[nodiscard, gnu::cold]] inline std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const auto end = text.find(' ');
    if (end != 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return words;
}

/// What the shell of the other host runs. On its standard input it gets variables, a line each up
/// to a "." (so that no secret stands in a list of processes), and then the names of signals for
/// the worker. When that input ends, the launcher or the connection has gone, and the worker is
/// killed with its children. The worker's notes (see collectives/host/launcher_notes.hpp) go to
/// standard error, marked; the exit code is the worker's.
[[nodiscard, gnu::cold]] inline std::string remote_command(
    const RemoteStart& start, std::string_view program, const std::vector<std::string>& arguments) {
  std::string worker = shell_word(program);
  for (std::size_t i = 1; i < arguments.size(); ++i) worker += " " + shell_word(arguments[i]);
  constexpr std::string_view begin =
      " || exit 125; unset TF_CONFIG; "
      "while IFS= read -r v && [ \"$v\" != . ]; do export \"$v\"; done; "
      "s=; command -v setsid >/dev/null && s=setsid; exec 3<&0 4>&1; { $s ";
  // Up to the bar, standard output is the pipe of the notes.
  constexpr std::string_view end =
      " </dev/null 9>&1 >&4 3<&- 4>&- & p=$!; "
      "{ while read -r n <&3; do kill -s \"$n\" $p; done; "
      "kill -s KILL -- -$p 2>/dev/null || kill -s KILL $p; } >/dev/null 2>&1 & w=$!; "
      "wait $p; c=$?; kill -s KILL $w; echo \"exit $c\"; } | "
      "{ c=125; while IFS= read -r n; do case $n in \"exit \"*) c=${n#exit };; "
      "*) printf \"\\036lockstep-note %s\\n\" \"$n\" >&2;; esac; done; exit $c; }";
  const std::string script = concat({"cd ", shell_word(start.folder), begin, worker, end});
  return "exec sh -c " + shell_word(script);
}

/// What it reads first.
[[nodiscard, gnu::cold]] inline std::string remote_variables(const RemoteStart& start, int rank) {
  std::string text;
  for (const std::string& variable : start.environment) text += variable + "\n";
  return text + concat({"LOCKSTEP_LAUNCHER=hosts\nLOCKSTEP_NOTE_FD=9\nLOCKSTEP_RANK=", rank,
                        "\nLOCKSTEP_WORLD_SIZE=", start.workers, "\nLOCKSTEP_MEETING_ADDRESS=",
                        start.meeting, "\nLOCKSTEP_JOB_ID=", start.job, "\n.\n"});
}

/// What a worker writes to one of its streams, line by line.
class PrefixedStream {
 public:
  PrefixedStream() = default;
  /// What follows `mark` in a line is kept for take_marked() instead; empty: none.
  PrefixedStream(Descriptor source, int target, std::string prefix, std::string_view mark = {})
      : source_(std::move(source)), target_(target), prefix_(std::move(prefix)), mark_(mark) {}

  [[nodiscard]] const Descriptor& source() const noexcept { return source_; }
  /// The marked lines that have come since the last call, each with a new line.
  [[nodiscard]] std::string take_marked() { return std::exchange(marked_, {}); }
  /// Why lines were lost (errno); 0 if none was.
  [[nodiscard]] int failure() const noexcept { return failure_; }

  /// Passes on the lines that are complete; at the end of the stream, also the rest. Reads a
  /// bounded number of bytes, as a worker may write without end; returns whether there may be more.
  bool pump() {
    char chunk[65536];
    const ssize_t n = ::read(source_.get(), chunk, sizeof chunk);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return errno == EINTR;
    if (n <= 0) {
      finish();
      return false;
    }
    rest_.append(chunk, static_cast<std::size_t>(n));
    take_lines();
    write_lines();
    return true;
  }

  void finish() {
    source_.close();
    if (!rest_.empty()) add_line(rest_);
    rest_.clear();
    write_lines();
  }

 private:
  static constexpr std::size_t longest_line = std::size_t{64} << 10;

  void take_lines() {
    std::size_t begin = 0;
    for (std::size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1)
      add_line(std::string_view(rest_).substr(begin, end - begin));
    rest_.erase(0, begin);
    if (rest_.size() > longest_line) {
      add_line(rest_);
      rest_.clear();
    }
  }

  // A line may be drawn several times, like a progress bar on a terminal: only its last state
  // counts.
  void add_line(std::string_view line) {
    if (const auto mark = mark_.empty() ? std::string_view::npos : line.find(mark_);
        mark != std::string_view::npos) {
      marked_ += line.substr(mark + mark_.size());
      marked_ += '\n';
      line = line.substr(0, mark);  // the unfinished line that the program had printed
      if (line.empty()) return;
    }
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (const auto drawn = line.rfind('\r'); drawn != std::string_view::npos)
      line.remove_prefix(drawn + 1);
    if (!line.starts_with(structured_log_begin)) lines_ += prefix_;  // that has the rank
    lines_ += line;
    lines_ += '\n';
  }

  void write_lines() {
    std::string_view text = lines_;
    while (!text.empty()) {
      const ssize_t n = ::write(target_, text.data(), text.size());
      if (n > 0) {
        text.remove_prefix(static_cast<std::size_t>(n));
      } else if (errno == EAGAIN) {
        pollfd full{target_, POLLOUT, 0};
        ::poll(&full, 1, 1000);
      } else if (errno != EINTR) {
        failure_ = errno;  // its reader has gone, for example
        break;
      }
    }
    lines_.clear();
  }

  Descriptor source_;
  int target_ = -1;
  int failure_ = 0;
  std::string prefix_;
  std::string mark_;
  std::string marked_;
  std::string rest_;   // an incomplete line
  std::string lines_;  // complete ones, with the prefix
};

/// A name that no other job has.
[[nodiscard, gnu::cold]] inline std::string new_job_name() {
  std::random_device random;
  return concat({random(), "-", random()});
}

struct LaunchedTask {
  int index = 0;
  bool is_server = false;  ///< a parameter server; else a worker

  /// "worker 1", "server 1": stands before the lines of its output.
  [[nodiscard]] std::string name() const {
    return concat({is_server ? "server " : "worker ", index});
  }
  /// TF_CONFIG's text. `cluster`: the jobs, with the addresses of all.
  [[nodiscard]] std::string tf_config(std::string_view cluster) const {
    return concat({"{\"cluster\":{", cluster, "},\"task\":{\"type\":\"",
                   is_server ? "ps" : "worker", "\",\"index\":", index, "}}"});
  }
};

inline constexpr const char* running_program = "/proc/self/exe";

/// What to run in place of `program`: for running_program the path of this program, by which ps and
/// top name the process, as long as that path still holds the same file.
inline std::string program_to_run(const std::string& program) {
  std::string path = program == running_program ? path_of_program() : "";
  if (path.empty()) return program;
#if LOCKSTEP_LINUX
  struct stat running {};
  struct stat named {};
  if (::stat(running_program, &running) != 0 || ::stat(path.c_str(), &named) != 0 ||
      running.st_dev != named.st_dev || running.st_ino != named.st_ino)
    return program;
#endif
  return path;
}

/// What all processes of a launcher run.
struct WorkerProgram {
  std::string path;
  std::vector<std::string> arguments;
  std::string cluster;               // the jobs of TF_CONFIG
  const Descriptor& input;           // their standard input
  const IgnoredSignals& not_theirs;  // ignored by this process, and not by them
  RemoteStart remote{};              // of those on other hosts
  std::string run{};                 // the run's name in their log, if it is for us to give
};

/// How a process has ended.
struct ProcessEnd {
  int code = 0;    ///< as a shell would say it
  int signal = 0;  ///< that killed it

  [[nodiscard]] std::string text() const {
    if (signal == 0) return concat({"exit code ", code});
    return concat({"killed by signal ", signal, " (", ::strsignal(signal), ")"});
  }
};

/// A place in the cluster, and the process that has it at present.
class WorkerProcess {
 public:
  /// With a host, it is started there by ssh. Without one, it is on this machine: listens on a free
  /// port of the loopback interface. A successor finds that port, and the peers that wait there.
  WorkerProcess(LaunchedTask task, std::string host) : task_(task), host_(std::move(host)) {
    if (is_remote()) return;
    const auto refuse = [](int error) {
      return Error(
          concat({"workers of one machine meet at a port of 127.0.0.1, which cannot be used here: ",
                  system_error_text(error), "; turn the loopback network on (ip link set lo up)"}));
    };
    Descriptor listener = listen_at("127.0.0.1", 0);
    if (!listener.is_open()) throw refuse(errno);
    listener_ = Descriptor::checked(listener.release(), "make a socket");
    // A port can be had of an interface that is down, too; it cannot be called.
    const SocketName name = own_name(listener_.get());
    const Descriptor caller = Descriptor::checked(new_socket(AF_INET, SOCK_DGRAM), "make a socket");
    if (::connect(caller.get(), plain(name), size_of(name)) != 0) throw refuse(errno);
    address_ = concat({"127.0.0.1:", port_of(name)});
  }

  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  /// What a worker on another host has told.
  void set_address(std::string_view address) { address_ = address; }
  [[nodiscard]] bool is_remote() const noexcept { return !host_.empty(); }
  [[nodiscard]] const std::string& host() const noexcept { return host_; }
  [[nodiscard]] bool lives() const noexcept { return lives_; }
  /// Its output.
  [[nodiscard]] std::array<PrefixedStream, 2>& output() noexcept { return output_; }
  [[nodiscard]] const std::array<PrefixedStream, 2>& output() const noexcept { return output_; }
  /// The descriptor of its notes (see collectives/host/launcher_notes.hpp); -1 when no more can
  /// come.
  [[nodiscard]] int note_descriptor() const noexcept { return notes_.get(); }

  /// Why some of its output was lost (errno); 0 if none was.
  [[nodiscard]] int output_failure() const noexcept {
    return output_failure_ != 0 ? output_failure_ : output_[0].failure();
  }

  /// There will be no successor that the launcher starts.
  void close_port() noexcept { listener_.close(); }

  /// Starts a process. Throws Error when that fails.
  void start(const WorkerProgram& program) {
    finish_output();
    output_failure_ = output_failure();
    Pipe out, err, note;
    ::fcntl(note.write.get(), F_SETFL, O_NONBLOCK);
    const std::string prefix = concat({"[", task_.name(), "] "});
    output_[0] = PrefixedStream(std::move(out.read), STDOUT_FILENO, prefix);
    output_[1] = PrefixedStream(std::move(err.read), STDERR_FILENO, prefix,
                                is_remote() ? remote_note_mark : "");
    notes_ = is_remote() ? Descriptor() : std::move(note.read);
    unread_notes_.clear();
    Pipe in;
    ::fcntl(in.read.get(), F_SETFL, 0);  // its reader may be a shell, which expects to wait

    // Between fork and exec only system calls are safe, so that everything is prepared here.
    std::vector<std::string> environment = environment_for(program, note.write.get());
    std::vector<std::string> arguments = program.arguments;
    std::string path = program_to_run(program.path);
    if (is_remote()) {
      const std::string command = remote_command(program.remote, path, arguments);
      arguments = program.remote.ssh;
      arguments.insert(arguments.end(), {host_, command});
      arguments.insert(arguments.begin(), "env");  // finds ssh
      path = "/usr/bin/env";
    }
    const std::string_view failure =
        path == running_program
            ? "cannot run the program: it is found by /proc/self/exe, so /proc must be mounted\n"
            : "cannot run the program\n";
    const auto argv = pointers(arguments);
    const auto envp = pointers(environment);
    const pid_t parent = ::getpid();

    // A signal that reaches the child before exec is meant for the child, and must not show in this
    // process's pipe.
    const BlockedSignals blocked;
    const pid_t process = ::fork();
    if (process < 0)
      throw Error(concat({"cannot start ", task_.name(), ": ", std::strerror(errno),
                          limits_text(Resource::threads)}));
    if (process == 0) {
      SignalPipe::let_go();
      program.not_theirs.restore();
      blocked.release();
      ::setpgid(0, 0);
#if LOCKSTEP_LINUX
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
      if (::getppid() != parent) ::_exit(1);
      ::dup2(is_remote() ? in.read.get() : program.input.get(), STDIN_FILENO);
      ::dup2(out.write.get(), STDOUT_FILENO);
      ::dup2(err.write.get(), STDERR_FILENO);
      if (!is_remote()) {
        ::fcntl(listener_.get(), F_SETFD, 0);
        ::fcntl(note.write.get(), F_SETFD, 0);
      }
      ::execve(path.c_str(), argv.data(), envp.data());
      (void)!::write(STDERR_FILENO, failure.data(), failure.size());
      ::_exit(127);
    }
    ::setpgid(process, process);
    process_ = process;
    lives_ = true;
    if (!is_remote()) return;
    ::fcntl(in.write.get(), F_SETFL, O_NONBLOCK);
    commands_ = std::move(in.write);
    tell(remote_variables(program.remote, task_.index));
  }

  /// How the process has ended, when it has.
  [[nodiscard]] std::optional<ProcessEnd> reap() noexcept {
    int status = 0;
    do {
      if (!lives_ || ::waitpid(process_, &status, WNOHANG | WUNTRACED | WCONTINUED) != process_)
        return std::nullopt;
      stopped_since_.reset();
      if (WIFSTOPPED(status)) stopped_since_ = std::chrono::steady_clock::now();
    } while (WIFSTOPPED(status) || WIFCONTINUED(status));
    lives_ = false;
    if (WIFSIGNALED(status))
      return ProcessEnd{.code = 128 + WTERMSIG(status), .signal = WTERMSIG(status)};
    return ProcessEnd{.code = WEXITSTATUS(status)};
  }

  /// Since when it is known to be stopped (SIGSTOP), if it is. (Of one on another host: its ssh.)
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> stopped_since()
      const noexcept {
    return stopped_since_;
  }

  /// SIGKILL is for its children, too. On another host, the worker dies with the connection.
  void signal(int number) const noexcept {
    if (!lives_) return;
    if (is_remote() && number != SIGKILL)
      tell(number == SIGTERM   ? "TERM\n"
           : number == SIGINT  ? "INT\n"
           : number == SIGCONT ? "CONT\n"
                               : "HUP\n");
    else
      ::kill(number == SIGKILL ? -process_ : process_, number);
  }

  /// Kills the process and waits for its end.
  void end() noexcept {
    signal(SIGKILL);
    if (std::exchange(lives_, false)) ::waitpid(process_, nullptr, 0);
  }

  /// The next complete note.
  [[nodiscard]] std::optional<std::string> take_note() {
    if (is_remote()) {
      if (output_[1].source().is_open()) output_[1].pump();
      unread_notes_ += output_[1].take_marked();
    }
    char chunk[4096];
    while (notes_.is_open()) {
      const ssize_t n = ::read(notes_.get(), chunk, sizeof chunk);
      if (n == 0) notes_.close();
      if (n <= 0) break;
      unread_notes_.append(chunk, static_cast<std::size_t>(n));
    }
    const std::size_t end = unread_notes_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string note = unread_notes_.substr(0, end);
    unread_notes_.erase(0, end + 1);
    return note;
  }

  /// Shows the rest of the output. (A child of the process may hold it open, so this reads a
  /// limited amount.)
  void finish_output() {
    for (PrefixedStream& stream : output_) {
      // As much as a pipe holds.
      for (int i = 0; i < 64 && stream.source().is_open() && stream.pump(); ++i) {
      }
      if (stream.source().is_open()) stream.finish();
    }
  }

 private:
  // As much as the pipe takes: its reader may have gone.
  void tell(std::string_view text) const noexcept {
    (void)!::write(commands_.get(), text.data(), text.size());
  }

  [[nodiscard]] std::vector<std::string> environment_for(const WorkerProgram& program,
                                                         int note) const {
    std::vector<std::string> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      if (!text.starts_with("TF_CONFIG=") && !text.starts_with("LOCKSTEP_LISTEN_FD=") &&
          !text.starts_with("LOCKSTEP_NOTE_FD=") && !text.starts_with("LOCKSTEP_LAUNCHER="))
        environment.emplace_back(text);
    }
    if (is_remote()) return environment;  // of ssh
    if (!program.run.empty()) {
      std::erase_if(environment,
                    [](const std::string& text) { return text.starts_with("LOCKSTEP_RUN_ID="); });
      environment.push_back("LOCKSTEP_RUN_ID=" + program.run);
    }
    environment.push_back("TF_CONFIG=" + task_.tf_config(program.cluster));
    environment.emplace_back("LOCKSTEP_LAUNCHER=workers");
    environment.push_back(concat({"LOCKSTEP_LISTEN_FD=", listener_.get()}));
    environment.push_back(concat({"LOCKSTEP_NOTE_FD=", note}));
    return environment;
  }

  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    result.reserve(texts.size() + 1);
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
  }

  LaunchedTask task_;
  std::string host_;
  std::string address_;
  Descriptor listener_;
  pid_t process_ = -1;
  bool lives_ = false;
  std::optional<std::chrono::steady_clock::time_point> stopped_since_;
  std::array<PrefixedStream, 2> output_;
  int output_failure_ = 0;  // of the processes before this one
  Descriptor commands_;     // to a worker on another host
  Descriptor notes_;
  std::string unread_notes_;
};

/// A note in its parts: "lost 127.0.0.1:4711 was silent for 10 s".
struct WorkerNote {
  std::string_view kind;   ///< "lost"
  std::string_view about;  ///< a peer's address, or a time
  std::string_view text;   ///< the rest

  explicit WorkerNote(std::string_view note) {
    const auto word = [&] {
      const std::size_t end = std::min(note.find(' '), note.size());
      const std::string_view taken = note.substr(0, end);
      note.remove_prefix(std::min(end + 1, note.size()));
      return taken;
    };
    kind = word();
    about = word();
    text = note;
  }

  /// `about` as a time of the clock that all processes of a machine share.
  [[nodiscard]] std::chrono::steady_clock::time_point time() const {
    using Clock = std::chrono::steady_clock;
    Clock::rep time = 0;
    std::from_chars(about.data(), about.data() + about.size(), time);
    return Clock::time_point(Clock::duration(time));
  }
};

struct LaunchedWorker {
  using Clock = std::chrono::steady_clock;

  LaunchedWorker(int place, int restarts, std::string host = {})
      : LaunchedWorker({.index = place}, place, restarts, std::move(host)) {}
  LaunchedWorker(LaunchedTask with, int place, int restarts, std::string host = {})
      : index(place), task(with), process(with, std::move(host)), restarts_left(restarts) {}

  int index;  ///< among all processes of the launcher
  LaunchedTask task;
  WorkerProcess process;
  int restarts_left;
  ProcessEnd end{};
  int order = 0;                      ///< the first worker that ended is 1
  bool by_peer = false;               ///< it failed because another worker did
  bool by_launcher = false;           ///< it had been told to stop
  std::optional<std::string> hung{};  ///< it was killed for that: "lost to worker 0 (...)"
  std::optional<Clock::time_point> lost_another{};  ///< and has not connected since
  bool keeps_others_waiting = false;                ///< since they were told to stop
  bool has_agreed_to_stop = false;
  /// It has ended with 0, and is started again then, unless the chief has ended with 0 too.
  std::optional<Clock::time_point> back_at{};
  bool came_back = false;  ///< it was started again at back_at
  bool was_started_again = false;
  bool left_out = false;  ///< it has ended, and an elastic job goes on without it

  /// Cleans up after a process, and starts its successor.
  void start_again(const WorkerProgram& program) {
    end = {};
    order = 0;
    by_peer = by_launcher = keeps_others_waiting = has_agreed_to_stop = came_back = false;
    hung.reset();
    lost_another.reset();
    back_at.reset();
    left_out = false;
    was_started_again = true;
    process.start(program);
  }

  [[nodiscard]] bool has_succeeded() const { return !process.lives() && end.code == 0; }
  /// The others have been told to stop, and wait for this worker, which has not agreed to.
  [[nodiscard]] bool delays_stop() const {
    return process.lives() && keeps_others_waiting && !has_agreed_to_stop && !hung;
  }
  [[nodiscard]] bool has_open_output() const {
    return process.output()[0].source().is_open() || process.output()[1].source().is_open();
  }

  /// "worker 1", "worker 1 on host b", "server 0"
  [[nodiscard]] std::string name() const {
    return process.is_remote() ? concat({task.name(), " on host ", process.host()}) : task.name();
  }
  [[nodiscard]] std::string how_it_ended() const {
    if (!hung && process.is_remote() && end.code == 255) return ssh_has_failed;
    if (!hung) return end.text();
    return concat({*hung, " and killed"});
  }
};

/// The port at which workers on other hosts meet differs from launcher to launcher.
[[nodiscard, gnu::cold]] inline RemoteStart remote_start(const std::vector<std::string>& hosts,
                                                         std::string_view ssh) {
  if (hosts.empty()) return {};
  RemoteStart start;
  start.ssh = words_of(ssh);
  if (start.ssh.empty()) throw ConfigurationError("the ssh command is empty");
  start.workers = static_cast<int>(hosts.size());
  start.job = new_job_name();
  std::string host = hosts.front().substr(hosts.front().find('@') + 1);
  const auto is_first = [&](const std::string& other) { return other == hosts.front(); };
  if (std::all_of(hosts.begin(), hosts.end(), is_first)) host = "127.0.0.1";
  const char* const given = std::getenv("LOCKSTEP_MEETING_ADDRESS");
  start.meeting = given != nullptr ? given : address_text(host, port_of_job(start.job));
  (void)parse_address(start.meeting);
  std::error_code error;
  start.folder = std::filesystem::current_path(error).string();
  if (error) throw Error(concat({"the current folder has no name: ", error.message()}));
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with("LD_LIBRARY_PATH=") ||
        (text.starts_with("LOCKSTEP_") && !text.starts_with("LOCKSTEP_LISTEN"))) {
      if (text.find('\n') != std::string_view::npos)
        throw ConfigurationError(
            concat({"--hosts: the value of ", text.substr(0, text.find('=')),
                    " has a line break, and is passed on to the hosts as a line; take it out"}));
      start.environment.emplace_back(text);
    }
  }
  return start;
}

}}}  // namespace lockstep::detail

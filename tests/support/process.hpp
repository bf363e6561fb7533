#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lockstep_test {

/// What a program did: its exit code (128 + signal when a signal ended it) and all that it printed.
struct Finished {
  int exit_code = -1;
  std::string output;
  bool timed_out = false;
  double peak_megabytes = 0;  ///< of memory, in 2^20 bytes
};

using Environment = std::vector<std::pair<std::string, std::string>>;

/// A program in a process group of its own, which is killed with all its children when this object
/// goes.
class Process {
 public:
  Process(const std::vector<std::string>& command, const Environment& environment = {}) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ == 0) {
      ::setpgid(0, 0);
      ::dup2(ends[1], 1);
      ::dup2(ends[1], 2);
      ::unsetenv("TF_CONFIG");
      for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
      std::vector<char*> arguments;
      for (const std::string& argument : command)
        arguments.push_back(const_cast<char*>(argument.c_str()));
      arguments.push_back(nullptr);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::setpgid(pid_, pid_);
    ::close(ends[1]);
    output_ = ends[0];
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (!reaped_) {
      ::kill(-pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(output_);
  }

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  void signal(int number) const noexcept { ::kill(pid_, number); }

  /// Waits until the program has printed `text`, `times` times. Returns false after `limit`, or
  /// when its output has ended before.
  bool wait_for(const std::string& text, std::chrono::seconds limit, int times = 1) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + limit;
    const auto has_come = [&] {
      std::size_t at = 0;
      for (int i = 0; i < times; ++i, ++at)
        if ((at = seen_.find(text, at)) == std::string::npos) return false;
      return true;
    };
    while (!has_come()) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd ready{output_, POLLIN, 0};
      if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left)) == 0) return false;
      char buffer[4096];
      const ssize_t got = ::read(output_, buffer, sizeof buffer);
      if (got <= 0) return false;
      seen_.append(buffer, static_cast<std::size_t>(got));
    }
    return true;
  }

  /// What wait_for has read.
  [[nodiscard]] const std::string& seen() const noexcept { return seen_; }

  /// Waits until the program has closed its output and ended; kills it after `limit`.
  Finished wait(std::chrono::seconds limit) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + limit;
    Finished finished;
    finished.output = std::exchange(seen_, {});
    for (;;) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd ready{output_, POLLIN, 0};
      if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left)) == 0) {
        finished.timed_out = true;
        ::kill(-pid_, SIGKILL);
        break;
      }
      char buffer[4096];
      const ssize_t got = ::read(output_, buffer, sizeof buffer);
      if (got <= 0) break;
      finished.output.append(buffer, static_cast<std::size_t>(got));
    }
    int status = 0;
    rusage used{};
    ::wait4(pid_, &status, 0, &used);
    reaped_ = true;
    finished.peak_megabytes = static_cast<double>(used.ru_maxrss) / 1024;
    finished.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return finished;
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  std::string seen_;  // by wait_for
  bool reaped_ = false;
};

/// Runs a program to its end, at most `limit` long.
inline Finished run_process(const std::vector<std::string>& command,
                            const Environment& environment = {},
                            std::chrono::seconds limit = std::chrono::seconds(120)) {
  return Process(command, environment).wait(limit);
}

/// The processes that this one has started and that live.
inline std::vector<pid_t> children_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/task/" + std::to_string(process) +
                     "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

/// The path of tests/<room>/programs/<program>.cpp's program, <room>_<program>: it stands beside the
/// running one.
inline std::string test_program(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename(name);
}

/// The path of one of the programs of examples/.
inline std::string example(const std::string& name) {
  const char* folder = std::getenv("LOCKSTEP_EXAMPLES_DIR");
  if (folder == nullptr)
    throw std::runtime_error("LOCKSTEP_EXAMPLES_DIR is not set: run the tests by ctest");
  return std::string(folder) + "/" + name;
}

}  // namespace lockstep_test

#include "lockstep/cluster/launcher.hpp"

#include <doctest/doctest.h>
#include <pthread.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "data/temporary_folder.hpp"
#include "support/process.hpp"

using namespace lockstep::testing;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

Finished launch(const std::vector<std::string>& arguments, const Environment& environment = {}) {
  std::vector<std::string> command{PROGRAM_WORKER};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_process(command, environment, 60s);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::string last_line(std::string text) {
  if (!text.empty() && text.back() == '\n') text.pop_back();
  const auto end = text.rfind('\n');
  return end == std::string::npos ? text : text.substr(end + 1);
}

/// The processes that a worker's "waiting, process N" lines name.
std::vector<pid_t> processes(const std::string& output) {
  std::vector<pid_t> result;
  const std::string mark = "waiting, process ";
  for (std::size_t at = output.find(mark); at != std::string::npos; at = output.find(mark, at + 1))
    result.push_back(std::atoi(output.c_str() + at + mark.size()));
  return result;
}

bool is_gone(pid_t process) {
  for (int i = 0; i < 100; ++i) {
    if (::kill(process, 0) != 0) return true;
    ::usleep(50'000);
  }
  return false;
}

}  // namespace

TEST_SUITE("launcher") {
  TEST_CASE("each worker gets its place and the arguments without --workers") {
    for (const std::vector<std::string>& option : {std::vector<std::string>{"--workers", "3"}, {"--workers=3"}}) {
      std::vector<std::string> arguments{"arguments", "--flag"};
      arguments.insert(arguments.end(), option.begin(), option.end());
      arguments.insert(arguments.end(), {"value", "--", "--workers", "9"});
      const Finished finished = launch(arguments);
      CAPTURE(finished.output);
      CHECK(finished.exit_code == 0);
      for (const std::string worker : {"0", "1", "2"}) {
        CHECK(contains(finished.output, "[worker " + worker + "] rank " + worker + " of 3\n"));
        CHECK(contains(finished.output, "[worker " + worker + "] argument 2: --flag\n"));
        CHECK(contains(finished.output, "[worker " + worker + "] argument 3: value\n"));
        CHECK(contains(finished.output, "[worker " + worker + "] argument 6: 9\n"));
        CHECK_FALSE(contains(finished.output, "[worker " + worker + "] argument 7"));
      }
    }
  }

  TEST_CASE("one worker is launched too") {
    const Finished finished = launch({"--workers", "1", "arguments"});
    CHECK(finished.exit_code == 0);
    CHECK(finished.output == "[worker 0] argument 1: arguments\n[worker 0] rank 0 of 1\n");
  }

  TEST_CASE("the workers find each other over TCP") {
    const Finished finished = launch({"--workers", "4", "sum"});
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 0);
    CHECK(count(finished.output, "] sum 10\n") == 4);
  }

  TEST_CASE("output comes in whole lines, from both streams, the rest at the end") {
    const Finished finished = launch({"--workers", "2", "lines"});
    CHECK(finished.exit_code == 0);
    for (const std::string worker : {"[worker 0] ", "[worker 1] "}) {
      CHECK(contains(finished.output, worker + "whole line\n"));
      CHECK(contains(finished.output, worker + "drawn again\n"));
      CHECK(contains(finished.output, worker + "an error\n"));
      CHECK(contains(finished.output, worker + "no end\n"));
    }
    CHECK(count(finished.output, "x") >= 200'000);
    std::size_t begin = 0;
    for (std::size_t end; (end = finished.output.find('\n', begin)) != std::string::npos; begin = end + 1)
      CHECK(finished.output.compare(begin, 8, "[worker ") == 0);
    CHECK(begin == finished.output.size());
  }

  TEST_CASE("the worker that failed first is named last, and its exit code returned") {
    const Finished finished = launch({"--workers", "3", "kill"});
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 137);
    CHECK(last_line(finished.output) == "lockstep: worker 1 failed first: killed by signal 9 (Killed)");
    CHECK(count(finished.output, "error: barrier: rank 1 (127.0.0.1:") +
              count(finished.output, "error: all_reduce: rank 1 (") ==
          2);
  }

  TEST_CASE("workers that do not notice a failure are stopped") {
    // Through the function, for a shorter patience than the 10 s that a program has.
    lockstep::LaunchOptions options;
    options.workers = 2;
    options.program = PROGRAM_WORKER;
    options.arguments = {PROGRAM_WORKER, "code", "5"};
    options.failure_grace = 100ms;
    const auto begin = Clock::now();
    CHECK(lockstep::launch_workers(options) == 5);
    CHECK(Clock::now() - begin < 20s);
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // no child is left
  }

  TEST_CASE("what is worth it is started again, a permanent error is not") {
    // (That restarted workers find each other and go on: tests/integration/survival.test.cpp.)
    const auto launch_shell = [](const std::string& script, int restarts) {
      lockstep::LaunchOptions options;
      options.program = "/bin/sh";
      options.arguments = {"sh", "-c", script};
      options.restarts = restarts;
      return lockstep::launch_workers(options);
    };
    const lockstep_test::TemporaryFolder folder;
    const auto lines = [&](const std::string& name) {
      std::ifstream file(folder.path(name));
      return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
    };
    CHECK(launch_shell("echo >> " + folder.path("a") + "; exit 138", 3) == 138);
    CHECK(lines("a") == 4);
    CHECK(launch_shell("echo >> " + folder.path("b") + "; kill -9 $$", 2) == 137);
    CHECK(lines("b") == 3);
    CHECK(launch_shell("echo >> " + folder.path("c") + "; exit 5", 3) == 5);
    CHECK(lines("c") == 1);
    CHECK(launch_shell("echo >> " + folder.path("d") + "; [ $(wc -l < " + folder.path("d") + ") = 2 ] || exit 138",
                       9) == 0);
    CHECK(lines("d") == 2);
    lockstep::LaunchOptions negative;
    negative.restarts = -1;
    CHECK_THROWS_AS((void)lockstep::launch_workers(negative), lockstep::ConfigurationError);
  }

  TEST_CASE("workers that refuse to stop are killed") {
    lockstep::LaunchOptions options;
    options.workers = 2;
    options.program = "/bin/sh";
    options.arguments = {
        "sh", "-c", R"(case "$TF_CONFIG" in *'"index":1}'*) exit 3;; esac; trap '' TERM; while :; do sleep 1; done)"};
    options.failure_grace = 300ms;
    options.stop_grace = 300ms;
    const auto begin = Clock::now();
    CHECK(lockstep::launch_workers(options) == 3);
    CHECK(Clock::now() - begin < 20s);
  }

  TEST_CASE("a program that cannot be run") {
    lockstep::LaunchOptions options;
    options.program = "/no/such/program";
    options.arguments = {"program"};
    CHECK(lockstep::launch_workers(options) == 127);
    options.workers = 0;
    CHECK_THROWS_WITH_AS((void)lockstep::launch_workers(options), "a cluster needs at least 1 worker, got 0",
                         lockstep::ConfigurationError);
  }

  TEST_CASE("a signal is passed on once, and workers that end well are no failure") {
    Process process({PROGRAM_WORKER, "--workers", "2", "graceful"});
    REQUIRE(process.wait_for("[worker 0] waiting", 30s));
    REQUIRE(process.wait_for("[worker 1] waiting", 30s));
    process.signal(SIGTERM);
    const Finished finished = process.wait(30s);
    CAPTURE(finished.output);
    CHECK(count(finished.output, "stopped by 1 signal") == 2);
    CHECK(finished.exit_code == 0);
  }

  TEST_CASE("SIGTERM gives 143 and SIGINT 130") {
    for (const auto& [signal, code] : {std::pair{SIGTERM, 143}, std::pair{SIGINT, 130}}) {
      Process process({PROGRAM_WORKER, "--workers", "2", "wait"});
      REQUIRE(process.wait_for("[worker 0] waiting", 30s));
      REQUIRE(process.wait_for("[worker 1] waiting", 30s));
      process.signal(signal);
      CHECK(process.wait(30s).exit_code == code);
    }
  }

  TEST_CASE("a signal that a worker gets before it has become its program is that worker's alone") {
    static bool signal_child = false;
    const auto in_child = [] {
      if (signal_child) ::kill(::getpid(), SIGTERM);
    };
    const auto in_parent = [] { signal_child = false; };
    REQUIRE(::pthread_atfork(nullptr, in_parent, in_child) == 0);
    lockstep::LaunchOptions options;
    options.program = "/bin/sleep";
    options.arguments = {"sleep", "0.5"};
    signal_child = true;
    CHECK(lockstep::launch_workers(options) == 143);
    options.restarts = 1;  // were it taken for a signal to the launcher, nobody would be started again
    signal_child = true;
    CHECK(lockstep::launch_workers(options) == 0);
  }

  TEST_CASE("a second signal kills workers that ignore the first") {
    Process process({PROGRAM_WORKER, "--workers", "2", "wait", "stubbornly"});
    REQUIRE(process.wait_for("[worker 0] waiting", 30s));
    REQUIRE(process.wait_for("[worker 1] waiting", 30s));
    process.signal(SIGTERM);
    ::usleep(300'000);
    process.signal(SIGTERM);
    const Finished finished = process.wait(20s);
    CHECK_FALSE(finished.timed_out);
    CHECK(finished.exit_code == 143);
  }

  TEST_CASE("workers have process groups of their own, and die with the launcher") {
    Process process({PROGRAM_WORKER, "--workers", "2", "wait"});
    REQUIRE(process.wait_for("[worker 0] waiting", 30s));
    REQUIRE(process.wait_for("[worker 1] waiting", 30s));
    process.signal(SIGKILL);
    const Finished finished = process.wait(30s);
    const auto workers = processes(finished.output);
    REQUIRE(workers.size() == 2);
    for (const pid_t worker : workers) {
      CHECK(contains(finished.output, "process " + std::to_string(worker) + ", group " + std::to_string(worker)));
      CHECK(is_gone(worker));
    }
  }

  TEST_CASE("of the launcher's descriptors, workers inherit their port and a note for the launcher only") {
    const Finished alone = run_process({PROGRAM_WORKER, "descriptors"});
    const Finished finished = launch({"--workers", "3", "descriptors"});
    CAPTURE(finished.output);
    const int expected = std::atoi(alone.output.c_str()) + 2;
    CHECK(count(finished.output, "] " + std::to_string(expected) + " descriptors\n") == 3);
  }

  TEST_CASE("a worker that prints without end holds up neither signals nor anything else") {
    // (The shell throws away what the launcher prints.)
    Process launcher({"/bin/sh", "-c", "exec \"$0\" \"$@\" >/dev/null", PROGRAM_WORKER, "chatter", "--workers", "2"});
    std::this_thread::sleep_for(500ms);
    const auto begin = Clock::now();
    launcher.signal(SIGTERM);
    const Finished finished = launcher.wait(20s);
    CHECK_FALSE(finished.timed_out);
    CHECK(finished.exit_code == 143);
    CHECK(Clock::now() - begin < 10s);
  }
}

// `--servers`: parameter servers beside the workers of this machine.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "lockstep/cluster/launcher.hpp"
#include "lockstep/core/error.hpp"
#include "support/captured_stderr.hpp"
#include "support/messages.hpp"
#include "support/process.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep_test;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr const char* beginning = R"sh(
  task=$(echo "$TF_CONFIG" | sed 's/.*"type":"\([a-z]*\)","index":\([0-9]*\).*/\1\2/')
  server=$(echo "$TF_CONFIG" | sed 's/.*"ps":\["//; s/".*//')
  note() { echo "$@" > /proc/self/fd/$LOCKSTEP_NOTE_FD; }
  wait_for() { for i in $(seq 400); do [ ! -e $1 ] || return 0; sleep 0.05; done; exit 99; }
  echo >> $task
)sh";

/// Two workers and a server that run a shell script in a folder: $task is worker0, worker1 or ps0,
/// $server the server's address, and `note lost ...` a note to the launcher. Each process that
/// begins adds a line to the file of its task's name.
class Scripted {
 public:
  explicit Scripted(const std::string& script, int restarts = 0) {
    options.workers = 2;
    options.servers = 1;
    options.restarts = restarts;
    options.failure_grace = 500ms;
    options.program = "/bin/sh";
    options.arguments = {"sh", "-c", "cd '" + folder_.path() + "'\n" + beginning + script};
  }

  /// The exit code; what the launcher has said is in `said`.
  int launch() {
    const auto begin = Clock::now();
    const CapturedStderr captured;
    const int code = lockstep::launch_workers(options);
    said = captured.text();
    CHECK(Clock::now() - begin < 20s);
    return code;
  }
  [[nodiscard]] std::size_t lines(const std::string& name) const {
    return lockstep_test::count(lockstep_test::file_text(folder_.path(name)), "\n");
  }

  lockstep::LaunchOptions options;
  std::string said;

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_SUITE("servers") {
  TEST_CASE("each process gets its task and the arguments; output has its name") {
    const Finished finished = run_process({test_program("cluster_worker"), "task", "--workers", "2",
                                           "--flag", "--servers=3", "value"},
                                          {}, 60s);
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 0);
    for (const std::string name : {"worker 0", "worker 1", "ps 0", "ps 1", "ps 2"}) {
      const std::string prefix =
          name.front() == 'p' ? "[server" + name.substr(2) + "] " : "[" + name + "] ";
      CHECK(contains(finished.output, prefix + name + ", with 2 workers and 3 servers\n"));
      CHECK(contains(finished.output, prefix + "argument 2: --flag\n"));
      CHECK(contains(finished.output, prefix + "argument 3: value\n"));
    }
    CHECK_FALSE(contains(finished.output, "argument 4"));
  }

  TEST_CASE("servers may end by themselves; those that do not are told when all workers have") {
    Scripted leaves(R"(
      trap 'touch told' TERM
      case $task in worker*) sleep 0.2; touch $task.done;; esac
      wait_for worker0.done; wait_for worker1.done)");
    leaves.options.failure_grace = 20s;
    CHECK(leaves.launch() == 0);
    CHECK(leaves.said == "");
    Scripted stays(R"(
      case $task in worker*) exit 0;; esac
      trap 'echo >> told; exit 143' TERM
      while :; do sleep 0.05; done)");
    CHECK(stays.launch() == 0);
    CHECK(stays.lines("told") == 1);
    CHECK(contains(stays.said, "all workers have ended, and not all parameter servers"));
    Scripted refuses(R"(
      case $task in worker*) exit 0;; esac
      trap '' TERM
      while :; do sleep 0.05; done)");
    refuses.options.stop_grace = 300ms;
    CHECK(refuses.launch() == 0);
  }

  TEST_CASE("a server's failure ends the job with its exit code; a worker's ends the servers") {
    Scripted of_server(R"(
      [ $task != ps0 ] || exit 5
      exec sleep 60)");
    CHECK(of_server.launch() == 5);
    CHECK(contains(of_server.said, "server 0 failed first: exit code 5"));
    Scripted of_worker(R"(
      [ $task != worker1 ] || exit 3
      exec sleep 60)");
    CHECK(of_worker.launch() == 3);
    CHECK(contains(of_worker.said, "worker 1 failed first: exit code 3"));
  }

  TEST_CASE("a process that is killed is started again alone") {
    Scripted server(R"(
      if [ $task = ps0 ] && [ $(wc -l < ps0) = 1 ]; then kill -9 $$; fi
      [ $task != ps0 ] || touch serves
      wait_for serves)",
                    1);
    CHECK(server.launch() == 0);
    CHECK(server.lines("ps0") == 2);
    CHECK(server.lines("worker0") == 1);
    CHECK(server.lines("worker1") == 1);
    CHECK(contains(server.said,
                   "server 0 ended (killed by signal 9 (Killed)) and is started again; 0 restarts "
                   "left"));
    Scripted chief(R"(
      [ $task != worker1 ] || { sleep 0.3; touch ended; exit 0; }
      wait_for ended
      sleep 0.3
      if [ $task = worker0 ] && [ $(wc -l < worker0) = 1 ]; then kill -9 $$; fi
      [ $task != worker0 ] || touch done
      wait_for done)",
                   1);
    CHECK(chief.launch() == 0);
    CHECK(chief.lines("worker0") == 2);
    CHECK(chief.lines("worker1") == 1);
    CHECK(chief.lines("ps0") == 1);
  }

  TEST_CASE("a server that workers have lost, and that does not end, is killed") {
    for (const int restarts : {0, 1}) {
      Scripted hung(R"(
        if [ $task = ps0 ]; then
          [ $(wc -l < ps0) = 1 ] || { touch serves; exit 0; }
          exec sleep 60
        fi
        if [ $(wc -l < $task) = 2 ]; then wait_for serves; exit 0; fi
        sleep 0.2
        note lost $server has been silent for 30 s
        exit 138)",
                    restarts);
      CHECK(hung.launch() == (restarts == 0 ? 138 : 0));
      CHECK(hung.lines("ps0") == 1 + restarts);
      CAPTURE(hung.said);
      if (restarts == 0)
        CHECK(contains(
            hung.said,
            "server 0 failed first: lost to worker 0 (has been silent for 30 s) and killed"));
    }
  }

  TEST_CASE("a worker that servers have lost, and that does not end, is killed") {
    for (const int restarts : {0, 1}) {
      Scripted hung(R"(
        worker=$(echo "$TF_CONFIG" | sed 's/.*"worker":\["[^"]*","//; s/".*//')
        case $task in
          worker0) wait_for done; exit 0;;
          worker1) [ $(wc -l < worker1) = 1 ] || { touch done; exit 0; }; exec sleep 60;;
        esac
        [ -e told ] || { touch told; sleep 0.2; note lost $worker has been silent for 30 s; }
        wait_for done)",
                    restarts);
      CHECK(hung.launch() == (restarts == 0 ? 138 : 0));
      CHECK(hung.lines("worker1") == 1 + restarts);
      CHECK(hung.lines("worker0") == 1);
      CAPTURE(hung.said);
      CHECK(contains(hung.said,
                     "worker 1 was lost to server 0 (has been silent for 30 s), but its process "
                     "still exists: it is killed"));
    }
  }

  TEST_CASE(
      "a process that is stopped is killed, be it before all have met; one that goes on not") {
    for (const std::string victim : {"worker0", "worker1", "ps0"}) {
      CAPTURE(victim);
      Scripted stopped("victim=" + victim + R"(
        if [ $task = $victim ] && [ $(wc -l < $task) = 1 ]; then kill -STOP $$; fi
        if [ $task = $victim ]; then touch done; fi
        wait_for done)",
                       1);
      stopped.options.stopped_grace = 300ms;
      CHECK(stopped.launch() == 0);
      CHECK(stopped.lines(victim) == 2);
      CHECK(contains(stopped.said,
                     " was stopped (SIGSTOP) for 300 ms, but its process still exists: it is "
                     "killed and started again"));
    }
    Scripted continued(R"(
      [ $task != worker0 ] || { (sleep 0.2; kill -CONT $$) & kill -STOP $$; touch done; }
      wait_for done)");
    continued.options.stopped_grace = 5s;
    CHECK(continued.launch() == 0);
    CHECK(continued.said == "");
  }

  TEST_CASE("a signal is for the workers first; servers are told when these have ended") {
    Process process(
        {test_program("cluster_worker"), "--workers", "2", "--servers", "1", "graceful", "143"});
    for (const std::string name : {"[worker 0]", "[worker 1]", "[server 0]"})
      REQUIRE(process.wait_for(name + " waiting", 30s));
    process.signal(SIGTERM);
    const Finished finished = process.wait(30s);
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 143);
    const auto at = [&](const std::string& name) {
      const auto found = finished.output.find("[" + name + "] stopped by 1 signal");
      CHECK(found != std::string::npos);
      return found;
    };
    CHECK(at("worker 0") < at("server 0"));
    CHECK(at("worker 1") < at("server 0"));
  }

  TEST_CASE("numbers that make no sense are refused") {
    lockstep::LaunchOptions options;
    options.servers = -1;
    CHECK_THROWS_AS((void)lockstep::launch_workers(options), lockstep::ConfigurationError);
    options.servers = 1;
    options.hosts = {"a"};
    CHECK_THROWS_AS((void)lockstep::launch_workers(options), lockstep::ConfigurationError);
  }

  TEST_CASE("an elastic job beside servers goes on without a worker that is killed") {
    Scripted goes_on(R"(
      trap 'exit 0' TERM
      case $task in ps0) while :; do sleep 0.05; done;; esac
      note world 1 0 1
      [ $task = worker1 ] && wait_for left && sleep 0.2 && kill -9 $$
      sleep 0.3
      note world 2 0
      touch left
      sleep 0.7)");
    goes_on.options.failure_grace = 100ms;  // in which the others would be told to stop
    CHECK(goes_on.launch() == 0);
    CAPTURE(goes_on.said);
    CHECK(contains(goes_on.said, "worker 1 ended (killed by signal 9 (Killed)); the others go on"));
    CHECK(contains(goes_on.said, "],\"ps\":["));  // in what starts it again by hand
    CHECK(goes_on.lines("ps0") == 1);

    Scripted none_is_left(R"(
      [ $task = ps0 ] && exit 0
      note world 1 0 1
      sleep 0.3
      kill -9 $$)");
    CHECK(none_is_left.launch() == 137);
  }

  TEST_CASE("a server that fails ends an elastic job too") {
    Scripted fails(R"(
      [ $task = ps0 ] && sleep 0.3 && kill -9 $$
      note world 1 0 1
      sleep 60 & wait)");
    CHECK(fails.launch() == 137);
    CHECK(contains(fails.said, "server 0 failed first"));
  }
}

#include "lockstep/cluster/launcher.hpp"

#include <doctest/doctest.h>
#include <pthread.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"
#include "support/captured_stderr.hpp"
#include "support/messages.hpp"
#include "support/process.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep_test;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

Finished launch(const std::vector<std::string>& arguments, const Environment& environment = {}) {
  std::vector<std::string> command{test_program("cluster_worker")};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_process(command, environment, 60s);
}

std::string last_line(std::string text) {
  if (!text.empty() && text.back() == '\n') text.pop_back();
  const auto end = text.rfind('\n');
  return end == std::string::npos ? text : text.substr(end + 1);
}

/// Workers that run a shell script in which $index is a worker's place, $address1 the
/// address of worker 1, and `note lost ...` a note to the launcher.
lockstep::LaunchOptions scripted(const std::string& script) {
  lockstep::LaunchOptions options;
  options.program = "/bin/sh";
  options.arguments = {"sh", "-c", R"(
    index=$(echo "$TF_CONFIG" | sed 's/.*"index"://; s/}.*//')
    address1=$(echo "$TF_CONFIG" | sed 's/"]},.*//; s/.*\["[^"]*","//; s/".*//')
    note() { echo "$@" > /proc/self/fd/$LOCKSTEP_NOTE_FD; }
    )" + script};
  return options;
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
    for (const std::vector<std::string>& option :
         {std::vector<std::string>{"--workers", "3"}, {"--workers=3"}}) {
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
    for (std::size_t end; (end = finished.output.find('\n', begin)) != std::string::npos;
         begin = end + 1)
      CHECK(finished.output.compare(begin, 8, "[worker ") == 0);
    CHECK(begin == finished.output.size());
  }

  TEST_CASE("the worker that failed first is named last, and its exit code returned") {
    const Finished finished = launch({"--workers", "3", "kill"});
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 137);
    CHECK(last_line(finished.output) ==
          "lockstep: worker 1 failed first: killed by signal 9 (Killed)");
    CHECK(count(finished.output, "error: barrier: worker 1 (127.0.0.1:") +
              count(finished.output, "error: all_reduce: worker 1 (") ==
          2);
  }

  TEST_CASE("workers that do not notice a failure are stopped") {
    // Through the function, for a shorter patience than the 10 s that a program has.
    lockstep::LaunchOptions options;
    options.workers = 2;
    options.program = test_program("cluster_worker");
    options.arguments = {test_program("cluster_worker"), "code", "5"};
    options.failure_grace = 100ms;
    const auto begin = Clock::now();
    CHECK(lockstep::launch_workers(options) == 5);
    CHECK(Clock::now() - begin < 20s);
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // no child is left
  }

  TEST_CASE("a worker is started again after a temporary failure, and not after a permanent one") {
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
      return count(lockstep_test::file_text(folder.path(name)), "\n");
    };
    CHECK(launch_shell("echo >> " + folder.path("a") + "; exit 138", 3) == 138);
    CHECK(lines("a") == 4);
    CHECK(launch_shell("echo >> " + folder.path("b") + "; kill -9 $$", 2) == 137);
    CHECK(lines("b") == 3);
    CHECK(launch_shell("echo >> " + folder.path("c") + "; exit 5", 3) == 5);
    CHECK(lines("c") == 1);
    CHECK(launch_shell("echo >> " + folder.path("d") + "; [ $(wc -l < " + folder.path("d") +
                           ") = 2 ] || exit 138",
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
        "sh", "-c",
        R"(case "$TF_CONFIG" in *'"index":1}'*) exit 3;; esac; trap '' TERM; while :; do sleep 1; done)"};
    options.failure_grace = 300ms;
    options.stop_grace = 300ms;
    const auto begin = Clock::now();
    CHECK(lockstep::launch_workers(options) == 3);
    CHECK(Clock::now() - begin < 20s);
  }

  TEST_CASE("a worker that others have lost, and that does not end, is killed") {
    // (Workers that train and hang: tests/integration/survival.test.cpp.)
    const lockstep_test::TemporaryFolder folder;
    for (const int restarts : {0, 1}) {
      lockstep::LaunchOptions options = scripted(R"(
        cd ")" + folder.path() + R"("
        echo >> $index
        [ -e lost ] && for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
          [ $(wc -l < 1) = 1 ] || exit 0
          sleep 0.5
        done
        [ $index = 0 ] || sleep 60
        sleep 0.3
        touch lost
        note lost $address1 was silent
        exit 138)");
      options.workers = 2;
      options.restarts = restarts;
      const auto begin = Clock::now();
      CHECK(lockstep::launch_workers(options) == (restarts == 0 ? 138 : 0));
      CHECK(Clock::now() - begin < 20s);
      for (const std::string worker : {"0", "1"}) {
        CHECK(count(lockstep_test::file_text(folder.path(worker)), "\n") ==
              static_cast<std::size_t>(1 + restarts));
      }
      for (const std::string file : {"0", "1", "lost"}) std::filesystem::remove(folder.path(file));
    }
  }

  TEST_CASE("a worker that waits for a peer that will not return is told to stop at once") {
    lockstep::LaunchOptions options = scripted(R"(
      if [ $index = 1 ]; then sleep 0.3; kill -9 $$; fi
      sleep 0.5
      note lost $address1 its process ended
      sleep 60)");
    options.workers = 2;
    options.failure_grace = 50s;
    const auto begin = Clock::now();
    CHECK(lockstep::launch_workers(options) == 137);
    CHECK(Clock::now() - begin < 20s);
  }

  TEST_CASE(
      "when workers are told to stop, one that keeps the others waiting has less time than one "
      "that saves") {
    for (const bool saves : {false, true}) {
      lockstep::LaunchOptions options = scripted(R"(
        if [ $index = 2 ]; then sleep 0.2; exit 3; fi
        if [ $index = 1 ]; then trap ')" + std::string(saves ? "note stops; sleep 2; exit 0" : "") +
                                                 R"(' TERM; fi
        if [ $index = 0 ]; then trap 'note waits $address1; sleep 2; exit 143' TERM; fi
        while :; do sleep 0.1; done)");
      options.workers = 3;
      options.failure_grace = 500ms;
      options.hung_grace = 1s;
      options.stop_grace = 40s;
      const auto begin = Clock::now();
      CHECK(lockstep::launch_workers(options) == 3);
      CHECK(Clock::now() - begin < 20s);
    }
  }

  TEST_CASE("an elastic job goes on without a worker that is killed, be it the chief") {
    for (const int victim : {0, 1}) {
      CAPTURE(victim);
      lockstep::LaunchOptions options = scripted(R"(
        note world 1 0 1 2
        if [ $index = )" + std::to_string(victim) +
                                                 R"( ]; then sleep 0.3; kill -9 $$; fi
        sleep 0.6
        note world 2 )" + (victim == 0 ? "1 2" : "0 2") +
                                                 R"(
        sleep 0.6)");
      options.workers = 3;
      options.failure_grace = 100ms;  // in which the others would be told to stop
      lockstep_test::CapturedStderr captured;
      CHECK(lockstep::launch_workers(options) == 0);
      const std::string text = captured.text();
      CHECK(
          contains(text, "worker " + std::to_string(victim) +
                             " ended (killed by signal 9 (Killed)); the others go on without it"));
      CHECK(contains(text, "\"index\":" + std::to_string(victim) + "}}' '/bin/sh' '-c' '"));
    }
  }

  TEST_CASE("an elastic job goes on without a worker that is killed before the first world") {
    lockstep::LaunchOptions options = scripted(R"(
      note world 0
      [ $index = 2 ] && sleep 0.2 && kill -9 $$
      sleep 0.5
      note world 1 0 1
      sleep 0.3)");
    options.workers = 3;
    options.failure_grace = 100ms;
    CHECK(lockstep::launch_workers(options) == 0);
  }

  TEST_CASE("of an elastic job that has lost half of a world, the log says that the others wait") {
    lockstep::LaunchOptions options = scripted(R"(
      note world 1 0 1
      [ $index = 1 ] && sleep 0.2 && kill -9 $$
      sleep 0.5; exit 138)");
    options.workers = 2;
    lockstep_test::CapturedStderr captured;
    CHECK(lockstep::launch_workers(options) == 137);
    CHECK(contains(captured.text(), "no more than half of those that were at work: they wait"));
  }

  TEST_CASE("an elastic job is started again where it may be, and fails as another one does") {
    const lockstep_test::TemporaryFolder folder;
    lockstep::LaunchOptions options = scripted(R"(
      note world 1 0 1
      cd ")" + folder.path() + R"("
      echo >> $index
      [ $index = 0 ] && sleep 1.5
      [ $index = 1 ] && [ $(wc -l < 1) -lt 3 ] && kill -9 $$
      exit 0)");
    options.workers = 2;
    options.restarts = 5;
    CHECK(lockstep::launch_workers(options) == 0);
    CHECK(count(lockstep_test::file_text(folder.path("1")), "\n") == 3);

    for (const auto& failure :
         {std::pair{"exit 5", 5}, std::pair{"exit 138", 138}, std::pair{"kill -9 $$", 137}}) {
      CAPTURE(failure.second);
      lockstep::LaunchOptions failing = scripted(R"(
        note world 1 0 1
        [ $index = 0 ] && sleep 0.5 && exit 138
        sleep 0.2; )" + std::string(failure.first));
      failing.workers = 2;
      CHECK(lockstep::launch_workers(failing) == failure.second);
    }
  }

  TEST_CASE("when an elastic job is done, those whom it has left behind are told to stop") {
    for (const bool hangs : {true, false}) {  // or is late
      lockstep::LaunchOptions options = scripted(R"(
        [ $index = 2 ] && )" + std::string(hangs ? "note world 1 0 1 2" : "true") +
                                                 R"( && sleep 60
        note world 1 0 1 2
        note world 2 0 1
        sleep 0.5)");
      options.workers = 3;
      options.failure_grace = 300ms;
      const auto begin = Clock::now();
      CHECK(lockstep::launch_workers(options) == 0);
      CHECK(Clock::now() - begin < 20s);
    }
  }

  TEST_CASE("a program that cannot be run is an error") {
    lockstep::LaunchOptions options;
    options.program = "/no/such/program";
    options.arguments = {"program"};
    CHECK(lockstep::launch_workers(options) == 127);
    options.workers = 0;
    CHECK_THROWS_WITH_AS((void)lockstep::launch_workers(options),
                         "a cluster needs at least 1 worker, got 0", lockstep::ConfigurationError);
  }

  TEST_CASE(
      "a signal is passed on once, also when it comes twice; workers that end well are no "
      "failure") {
    Process process({test_program("cluster_worker"), "--workers", "2", "graceful"});
    REQUIRE(process.wait_for("[worker 0] waiting", 30s));
    REQUIRE(process.wait_for("[worker 1] waiting", 30s));
    process.signal(SIGTERM);
    ::usleep(20'000);
    process.signal(SIGTERM);  // as Ctrl-C does under `timeout`, to the group and once more
    const Finished finished = process.wait(30s);
    CAPTURE(finished.output);
    CHECK(count(finished.output, "stopped by 1 signal") == 2);
    CHECK(finished.exit_code == 0);
  }

  TEST_CASE("a worker that is stopped is woken up for a signal") {
    Process process({test_program("cluster_worker"), "--workers", "2", "graceful"});
    REQUIRE(process.wait_for("[worker 0] waiting", 30s));
    REQUIRE(process.wait_for("[worker 1] waiting", 30s));
    const auto workers = children_of(process.pid());
    REQUIRE(workers.size() == 2);
    ::kill(workers[1], SIGSTOP);
    process.signal(SIGTERM);
    const Finished finished = process.wait(20s);
    CAPTURE(finished.output);
    CHECK(count(finished.output, "stopped by 1 signal") == 2);
    CHECK(finished.exit_code == 0);
  }

  TEST_CASE("SIGTERM and SIGHUP give 143, SIGINT 130; under nohup SIGHUP is ignored") {
    for (const auto& [signal, code] :
         {std::pair{SIGTERM, 143}, std::pair{SIGINT, 130}, std::pair{SIGHUP, 143}}) {
      Process process({test_program("cluster_worker"), "--workers", "2", "wait"});
      REQUIRE(process.wait_for("[worker 0] waiting", 30s));
      REQUIRE(process.wait_for("[worker 1] waiting", 30s));
      process.signal(signal);
      CHECK(process.wait(30s).exit_code == code);
    }
    Process ignoring({"/bin/sh", "-c", "trap '' HUP; exec \"$0\" --workers 2 graceful",
                      test_program("cluster_worker")});
    REQUIRE(ignoring.wait_for("[worker 0] waiting", 30s));
    REQUIRE(ignoring.wait_for("[worker 1] waiting", 30s));
    ignoring.signal(SIGHUP);
    std::this_thread::sleep_for(200ms);
    ignoring.signal(SIGTERM);
    const Finished finished = ignoring.wait(30s);
    CHECK(count(finished.output, "stopped by 1 signal") == 2);
    CHECK(finished.exit_code == 0);
  }

  TEST_CASE(
      "a worker has the program's name; the running program is started also when its file has "
      "gone") {
    const std::string name =
        std::filesystem::path(test_program("cluster_worker")).filename().string().substr(0, 15);
    CHECK(launch({"--workers", "1", "name"}).output == "[worker 0] name: " + name + "\n");
    const lockstep_test::TemporaryFolder folder;
    std::filesystem::copy_file(test_program("cluster_worker"), folder.path("program"));
    const Finished finished = run_process({folder.path("program"), "launch_without_file"}, {}, 60s);
    CHECK(finished.output == "[worker 0] name: exe\n");
    CHECK(finished.exit_code == 0);
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
    options.restarts =
        1;  // if it were taken for a signal to the launcher, no worker would be started again
    signal_child = true;
    CHECK(lockstep::launch_workers(options) == 0);
  }

  TEST_CASE("a second signal kills workers that ignore the first") {
    Process process({test_program("cluster_worker"), "--workers", "2", "wait", "stubbornly"});
    REQUIRE(process.wait_for("[worker 0] waiting", 30s));
    REQUIRE(process.wait_for("[worker 1] waiting", 30s));
    process.signal(SIGTERM);
    ::usleep(1'100'000);
    process.signal(SIGTERM);
    const Finished finished = process.wait(20s);
    CHECK_FALSE(finished.timed_out);
    CHECK(finished.exit_code == 143);
  }

  TEST_CASE("workers have process groups of their own, and die with the launcher") {
    Process process({test_program("cluster_worker"), "--workers", "2", "wait"});
    REQUIRE(process.wait_for("[worker 0] waiting", 30s));
    REQUIRE(process.wait_for("[worker 1] waiting", 30s));
    process.signal(SIGKILL);
    const Finished finished = process.wait(30s);
    const auto workers = processes(finished.output);
    REQUIRE(workers.size() == 2);
    for (const pid_t worker : workers) {
      CHECK(contains(finished.output,
                     "process " + std::to_string(worker) + ", group " + std::to_string(worker)));
      CHECK(is_gone(worker));
    }
  }

  TEST_CASE(
      "of the launcher's descriptors, workers inherit their port and a note for the launcher "
      "only") {
    const Finished alone = run_process({test_program("cluster_worker"), "descriptors"});
    const Finished finished = launch({"--workers", "3", "descriptors"});
    CAPTURE(finished.output);
    const int expected = std::atoi(alone.output.c_str()) + 2;
    CHECK(count(finished.output, "] " + std::to_string(expected) + " descriptors\n") == 3);
  }

  TEST_CASE("a worker that prints without end delays neither signals nor other workers") {
    // (The shell throws away what the launcher prints.)
    Process launcher({"/bin/sh", "-c", "exec \"$0\" \"$@\" >/dev/null",
                      test_program("cluster_worker"), "chatter", "--workers", "2"});
    std::this_thread::sleep_for(500ms);
    const auto begin = Clock::now();
    launcher.signal(SIGTERM);
    const Finished finished = launcher.wait(20s);
    CHECK_FALSE(finished.timed_out);
    CHECK(finished.exit_code == 143);
    CHECK(Clock::now() - begin < 10s);
  }
}

using namespace lockstep;
using Hosts = std::vector<std::string>;

TEST_SUITE("host_list") {
  TEST_CASE("a host for each worker, in this order") {
    CHECK(parse_hosts("a:2,b") == Hosts{"a", "a", "b"});
    CHECK(parse_hosts("me@a.example:1,10.0.0.2:2") ==
          Hosts{"me@a.example", "10.0.0.2", "10.0.0.2"});
    CHECK(parse_hosts("[fd00::1]:2,[fd00::2]") == Hosts{"fd00::1", "fd00::1", "fd00::2"});
    CHECK(parse_host_file("# two machines\na slots=2\n\n  b:1  # the other\r\nc\n") ==
          Hosts{"a", "a", "b", "c"});
    CHECK(parse_host_file("a\nb\na slots=2\n") == Hosts{"a", "b", "a", "a"});
    CHECK(parse_host_file("[fd00::1]\tslots=2") == Hosts{"fd00::1", "fd00::1"});
  }

  TEST_CASE("entries that are none are refused by their text") {
    for (const char* wrong : {"", "a,", ",a", "a:", "a:0", "a:-1", "a:x", "a:2000", "a b", "a;b",
                              "-oProxyCommand=x", "fd00::1", "[]:2", "a:1:2", "$(x)"}) {
      CAPTURE(wrong);
      CHECK_THROWS_WITH_AS((void)parse_hosts(wrong), doctest::Contains(wrong), ConfigurationError);
    }
    for (const char* wrong :
         {"", "# nothing", "a slots=", "a slots=0", "a 2", "a slots=2 max=3", "a\nb:0\n"}) {
      CAPTURE(wrong);
      CHECK_THROWS_AS((void)parse_host_file(wrong), ConfigurationError);
    }
    CHECK_THROWS_WITH_AS((void)parse_hosts("a:2,"), doctest::Contains("without spaces"),
                         ConfigurationError);
    CHECK_THROWS_WITH_AS((void)parse_host_file("a\n\nb:0\n"),
                         doctest::Contains("line 3 of the host file, 'b:0'"), ConfigurationError);
  }
}

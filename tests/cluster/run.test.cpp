#include "lockstep/cluster/run.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <string_view>

#include "lockstep/core/error.hpp"
#include "lockstep/core/exit_report.hpp"
#include "support/captured_stderr.hpp"
#include "support/process.hpp"
#include "support/sanitizer.hpp"
#include "support/skip.hpp"

using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

Finished work(const std::vector<std::string>& arguments, const Environment& environment = {}) {
  std::vector<std::string> command{test_program("cluster_worker")};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_process(command, environment, 60s);
}

/// Runs a shell script whose $0 is the program.
Finished in_shell(const std::string& script) {
  return run_process({"/bin/sh", "-c", script, test_program("cluster_worker")}, {}, 60s);
}

}  // namespace

TEST_SUITE("run") {
  TEST_CASE("functions with and without arguments, that return something or nothing") {
    char name[] = "program", flag[] = "--flag";
    char* argv[] = {name, flag, nullptr};
    int calls = 0;
    CHECK(lockstep::run(2, argv, [&] { ++calls; }) == 0);
    CHECK(lockstep::run(2, argv, [&] { return ++calls + 5; }) == 7);
    CHECK(lockstep::run(2, argv, [&](int argc, char** arguments) {
            CHECK(argc == 2);
            CHECK(std::string(arguments[1]) == "--flag");
            CHECK(arguments[2] == nullptr);
          }) == 0);
    CHECK(lockstep::run(2, argv, [](int argc, char**) { return argc; }) == 2);
    const auto constant = [] { return 3; };
    CHECK(lockstep::run(2, argv, constant) == 3);
    char* nothing[] = {nullptr};
    CHECK(lockstep::run(0, nothing, constant) == 3);
  }

  TEST_CASE("what an exception destroys can tell its peers the message and the exit code") {
    static std::string told;
    struct Peer {
      ~Peer() {
        (void)lockstep::detail::ExitReport::leave(
            [](std::string_view reason, lockstep::ExitCode code) {
              told += std::string(reason) + " " + std::to_string(static_cast<int>(code)) + ";";
            });
      }
    };
    char* nothing[] = {nullptr};
    const lockstep_test::CapturedStderr output;
    CHECK(lockstep::run(0, nothing, [] {
            const Peer peer;
            throw lockstep::ConfigurationError("wrong configuration");
          }) == 2);
    CHECK(lockstep::run(0, nothing, [] {
            const Peer peer;
            throw lockstep::Preempted("stopped", lockstep::ExitCode::terminated);
          }) == 143);
    CHECK(told == "wrong configuration 2;stopped 143;");
  }

  TEST_CASE("exceptions become messages and exit codes") {
    const auto check = [](const char* what, int code, const std::string& message) {
      const Finished finished = work({"throw", what});
      CHECK(finished.exit_code == code);
      CHECK(finished.output == message);
    };
    check("configuration", 2, "error: wrong configuration\n");
    check("data", 1, "error: wrong data\n");
    check("lost", 138,
          "error: collective operation: worker 3 failed: is lost [after 0.0 s and 0 received "
          "bytes]\n");
    check("standard", 1, "error: something else\n");
    check("memory", 1,
          "error: out of memory: std::bad_alloc; the limits are: RLIMIT_AS (ulimit -v) in bytes "
          "1125899906842624\n");
    check("number", 1, "error: an exception that is no std::exception\n");
  }

  TEST_CASE("output that could not be written is an error, alone and under the launcher") {
    const std::string alone = "not all of its output could be written to stdout";
    const std::string launched = "not all of their output could be written to stdout";
    const auto tell = [](const std::string& redirection, const std::string& options) {
      return in_shell("exec \"$0\" tell " + options + redirection);
    };
    for (const auto& launch : {std::pair{std::string(), alone}, {"--workers 2", launched}}) {
      const std::string &options = launch.first,
                        &text = launch.second;  // clang++ 14 captures no bindings
      for (const auto& failure : {std::pair{" > /dev/full", "No space left on device"},
                                  {" >&-", "Bad file descriptor"}}) {
        const char *const redirection = failure.first, *const why = failure.second;
        CAPTURE(options);
        CAPTURE(redirection);
        const Finished finished = tell(redirection, options);
        CAPTURE(finished.output);
        CHECK(finished.exit_code == 1);
        // (Output that the program flushes itself fails much earlier.)
        CHECK(finished.output.find(text + (options.empty() ? "" : std::string(": ") + why)) !=
              std::string::npos);
        CHECK(finished.output.find("told all") != std::string::npos);
      }
      // A reader that has gone: the program goes on to its end.
      const Finished finished = in_shell("{ \"$0\" tell " + options +
                                         "; echo \"exit code $?\" >&2; } | head -n 1 > /dev/null");
      CAPTURE(finished.output);
      CHECK(finished.output.find(text) != std::string::npos);
      CHECK(finished.output.find("told all") != std::string::npos);
      CHECK(finished.output.find("exit code 1\n") != std::string::npos);
    }
    CHECK(in_shell("exec \"$0\" arguments > /dev/full")
              .output.find(alone + ": No space left on device") != std::string::npos);
    CHECK(tell(" > /dev/null", "").exit_code == 0);
    CHECK(tell(" 2>&-", "").exit_code == 0);
    CHECK(work({"throw", "data"}).exit_code == 1);
    CHECK(in_shell("exec \"$0\" throw lost > /dev/full").exit_code == 138);  // the first one counts
  }

  TEST_CASE(
      "a file that is opened where a standard stream was closed does not get what is printed") {
    const int descriptor = in_shell("exec \"$0\" open <&- >&- 2>&-").exit_code;
    CHECK(descriptor >= 3);  // the shell may have more open than the standard ones
    CHECK(descriptor < 100);
  }

  TEST_CASE("a wrong number of workers is a usage error") {
    for (const char* number : {"0", "-1", "x", "", "1.5", "1025", "99999999999999999999"}) {
      CAPTURE(number);
      const std::string message = "error: --workers needs a whole number from 1 to 1024, got '" +
                                  std::string(number) + "'\n";
      Finished finished = work({"--workers", number});
      CHECK(finished.exit_code == 2);
      CHECK(finished.output == message);
      finished = work({"--workers=" + std::string(number)});
      CHECK(finished.exit_code == 2);
      CHECK(finished.output == message);
    }
    CHECK(work({"--workers"}).exit_code == 2);
    CHECK(work({"--workers", "1", "--workers", "2"}).output == "error: --workers is given twice\n");
  }

  // (Not with a sanitizer, which opens files itself to look at objects.)
  TEST_CASE("too few open files: the limit is named, and what raises it" *
            doctest::skip(has_sanitizer)) {
    std::string command;
    const char* environment = "";
    SUBCASE("the launcher") { command = "exec \"$0\" --workers 2 sum"; }
    SUBCASE("a worker") {
      environment =
          R"({"cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}, "task": {"type": "worker", "index": 1}})";
      command = "exec \"$0\" sum";
    }
    for (int files = 6; files <= 16; ++files) {
      CAPTURE(files);
      const std::string limited = "ulimit -n " + std::to_string(files) + "; " + command;
      const Finished finished =
          run_process({"/bin/sh", "-c", limited, test_program("cluster_worker")},
                      {{"TF_CONFIG", environment}}, 60s);
      CAPTURE(finished.output);
      CHECK(finished.exit_code != 0);
      CHECK(finished.output.find("this process may have " + std::to_string(files) +
                                 " (RLIMIT_NOFILE)") != std::string::npos);
      CHECK(finished.output.find("raise the limit (ulimit -n") != std::string::npos);
    }
  }

  TEST_CASE("--restarts is the launcher's beside --workers, and an error without") {
    CHECK(work({"--workers", "1", "--restarts", "-1"}).output ==
          "error: --restarts needs a whole number from 0 to 1000000, got '-1'\n");
    CHECK(work({"--workers", "1", "--restarts"}).output ==
          "error: --restarts needs the number of times that a worker is started again\n");
    CHECK(work({"--workers", "1", "arguments", "--restarts=3"}).output ==
          "[worker 0] argument 1: arguments\n[worker 0] rank 0 of 1\n");
    const Finished alone = work({"arguments", "--restarts", "3"});
    CHECK(alone.exit_code == 2);
    CHECK(alone.output ==
          "error: --restarts is the launcher's, and goes with --workers, --hosts or --hostfile: "
          "give it, too, or put an option of the program's own behind --\n");
    CHECK(work({"arguments", "--", "--restarts", "3"}).output ==
          "argument 1: arguments\nargument 2: --\nargument 3: --restarts\nargument 4: 3\n"
          "rank 0 of 1\n");
  }

  TEST_CASE("--servers is the launcher's beside --workers, and an error without") {
    CHECK(work({"--workers", "1", "--servers", "-1"}).output ==
          "error: --servers needs a whole number from 0 to 1024, got '-1'\n");
    CHECK(work({"--workers", "1", "--servers"}).output ==
          "error: --servers needs the number of parameter servers beside the workers\n");
    CHECK(work({"--workers", "1", "arguments", "--servers=0"}).output ==
          "[worker 0] argument 1: arguments\n[worker 0] rank 0 of 1\n");
    const Finished alone = work({"arguments", "--servers=3"});
    CHECK(alone.exit_code == 2);
    CHECK(alone.output.starts_with("error: --servers is the launcher's, and goes with --workers"));
    CHECK(work({"arguments", "--ssh", "x"}).exit_code == 2);
    const Finished finished = work({"--hosts", "a:2", "--servers", "1", "arguments"});
    CHECK(finished.exit_code == 2);
    CHECK(finished.output.find("--servers starts parameter servers beside --workers, on this "
                               "machine; for hosts, start the program on each with a TF_CONFIG "
                               "that has a job 'ps', without --hosts") != std::string::npos);
  }

  TEST_CASE(
      "with LOCKSTEP_LOG=json, messages are structured lines, which the launcher passes on as they "
      "are") {
    const Finished thrown =
        work({"throw", "data"}, {{"LOCKSTEP_LOG", "json"}, {"LOCKSTEP_RUN_ID", "7"}});
    CHECK(thrown.exit_code == 1);
    CHECK(thrown.output.starts_with(R"({"time":")"));
    CHECK(thrown.output.find(R"("level":"error","task":"worker","index":0,"rank":0,"run":"7",)"
                             R"("message":"wrong data"})") != std::string::npos);
    const Finished launched = work({"--workers", "1", "throw", "data"}, {{"LOCKSTEP_LOG", "json"}});
    CHECK(launched.output.starts_with(R"({"time":")"));
    CHECK(launched.output.find(R"("level":"error","task":"launcher")") != std::string::npos);
    CHECK(launched.output.find(R"("message":"worker 0 failed first: exit code 1"})") !=
          std::string::npos);
    // The launcher has named the run, for itself and for the worker.
    const std::string worker = R"("task":"worker","index":0,"rank":0,"run":")";
    const auto of_worker = launched.output.find(worker),
               of_launcher = launched.output.find(R"("task":"launcher","run":")");
    REQUIRE(of_worker != std::string::npos);
    REQUIRE(of_launcher != std::string::npos);
    const auto name = launched.output.substr(
        of_worker + worker.size(),
        launched.output.find('"', of_worker + worker.size()) - of_worker - worker.size());
    CHECK(name.size() > 2);
    CHECK(launched.output.find(R"("task":"launcher","run":")" + name + '"') != std::string::npos);
    const Finished refused = work({"--hosts", ","}, {{"LOCKSTEP_LOG", "json"}});
    CHECK(refused.exit_code == 2);
    CHECK(refused.output.find(R"("task":"launcher")") != std::string::npos);
  }

  TEST_CASE("the name that the user has given to the run is that of the launcher's workers") {
    const Finished named = work({"--workers", "1", "throw", "data"},
                                {{"LOCKSTEP_LOG", "json"}, {"LOCKSTEP_RUN_ID", "mine"}});
    CHECK(named.output.find(R"("rank":0,"run":"mine")") != std::string::npos);
    CHECK(named.output.find(R"("task":"launcher","run":"mine")") != std::string::npos);
  }

  TEST_CASE("LOCKSTEP_LOG with another value is an error at once, in the launcher too") {
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"arguments"}, {"--workers", "1", "arguments"}}) {
      const Finished wrong = work(arguments, {{"LOCKSTEP_LOG", "jsno"}});
      CHECK(wrong.exit_code == 2);
      CHECK(wrong.output ==
            "error: the environment variable LOCKSTEP_LOG is 'jsno', which is no form of the log; "
            "use text or json\n");
    }
    CHECK(work({"arguments"}, {{"LOCKSTEP_LOG", "text"}}).exit_code == 0);
  }

  TEST_CASE("--workers inside a cluster is refused; TF_CONFIG that is wrong is an error at once") {
    const Finished both = work(
        {"--workers", "2"},
        {{"TF_CONFIG", R"({"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":0}})"}});
    CHECK(both.exit_code == 2);
    CHECK(both.output.find("TF_CONFIG already makes this process part of one") !=
          std::string::npos);
    const Finished wrong = work({"arguments"}, {{"TF_CONFIG", "{"}});
    CHECK(wrong.exit_code == 2);
    CHECK(wrong.output.find("error: TF_CONFIG: malformed JSON") == 0);
    CHECK(work({"--workers", "1", "arguments"}, {{"TF_CONFIG", "{}"}}).exit_code == 0);
  }
}

TEST_SUITE("run [needs namespaces]") {
  TEST_CASE("without a loopback network or /proc, the launcher says so, and what helps") {
    const auto launch = [](const std::string& here) {
      return in_shell("exec unshare " + here + "exec \"$0\" --workers 2 sum' \"$0\"");
    };
    const Finished may = run_process({"/bin/sh", "-c", "unshare --mount --net true"}, {}, 60s);
    if (may.exit_code != 0)
      return skip("the launcher", "the right to make namespaces: " + may.output);
    const Finished no_network = launch("--net sh -c '");
    CHECK(no_network.exit_code == 1);
    CHECK(no_network.output ==
          "error: workers of one machine meet at a port of 127.0.0.1, which cannot be used here: "
          "Network is unreachable; turn the loopback network on (ip link set lo up)\n");
    if (has_sanitizer) return;  // which needs /proc itself
    const Finished no_proc = launch("--mount sh -c 'mount -t tmpfs none /proc && ");
    CHECK(no_proc.exit_code == 127);
    CHECK(
        no_proc.output.find("[worker 1] cannot run the program: it is found by /proc/self/exe, so "
                            "/proc must be mounted\n") != std::string::npos);
  }
}

#include "lockstep/cluster/detail/worker_process.hpp"

#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "cluster/script_program.hpp"

using namespace lockstep::detail;
using namespace std::chrono_literals;
using lockstep_test::ScriptProgram;

namespace {

/// Waits for the end of the process, for ten seconds at most.
std::optional<ProcessEnd> end_of(WorkerProcess& process) {
  for (int i = 0; i < 1000; ++i) {
    if (const auto end = process.reap()) return end;
    std::this_thread::sleep_for(10ms);
  }
  process.end();
  return std::nullopt;
}

}  // namespace

TEST_CASE("worker process: how it has ended, as a shell would say it") {
  CHECK(ProcessEnd{.code = 7}.text() == "exit code 7");
  CHECK(ProcessEnd{.code = 137, .signal = SIGKILL}.text() == "killed by signal 9 (Killed)");

  const ScriptProgram ends("exit 3");
  WorkerProcess first({.index = 0}, "");
  CHECK_FALSE(first.lives());
  CHECK_FALSE(first.reap().has_value());
  first.start(ends.program);
  const auto code = end_of(first);
  REQUIRE(code.has_value());
  CHECK(code->code == 3);
  CHECK(code->signal == 0);
  CHECK_FALSE(first.lives());

  const ScriptProgram waits;
  WorkerProcess second({.index = 1}, "");
  second.start(waits.program);
  CHECK(second.lives());
  second.signal(SIGTERM);
  const auto killed = end_of(second);
  REQUIRE(killed.has_value());
  CHECK(killed->code == 128 + SIGTERM);
  CHECK(killed->signal == SIGTERM);
}

TEST_CASE("worker process: a successor has the port of the one before") {
  const ScriptProgram program("exit 0");
  WorkerProcess one({.index = 0}, ""), other({.index = 1}, "");
  const std::string address = one.address();
  CHECK(address.starts_with("127.0.0.1:"));
  CHECK(address != other.address());
  for (int start = 0; start < 2; ++start) {
    one.start(program.program);
    CHECK(end_of(one).has_value());
    CHECK(one.address() == address);
  }
}

TEST_CASE("worker process: its variables name its task, its notes come line by line") {
  const ScriptProgram program(
      "case $TF_CONFIG in *'\"type\":\"worker\",\"index\":2'*) ;; *) exit 9 ;; esac\n"
      "printf 'first\\nsecond\\nopen' >/proc/self/fd/$LOCKSTEP_NOTE_FD");
  WorkerProcess process({.index = 2}, "");
  process.start(program.program);
  const auto end = end_of(process);
  REQUIRE(end.has_value());
  CHECK(end->code == 0);
  CHECK(process.take_note() == "first");
  CHECK(process.take_note() == "second");
  CHECK_FALSE(process.take_note().has_value());  // the last one is not complete
}

TEST_CASE("worker process: a stop is seen, and so is that it goes on") {
  const ScriptProgram program;
  WorkerProcess process({.index = 0}, "");
  process.start(program.program);
  const auto comes_to = [&](bool is_stopped) {
    for (int i = 0; i < 1000 && process.stopped_since().has_value() != is_stopped; ++i) {
      CHECK_FALSE(process.reap().has_value());
      std::this_thread::sleep_for(10ms);
    }
    return process.stopped_since().has_value() == is_stopped;
  };
  process.signal(SIGSTOP);
  CHECK(comes_to(true));
  process.signal(SIGCONT);
  CHECK(comes_to(false));
  process.end();
  CHECK_FALSE(process.lives());
}

TEST_CASE("worker process: a program that cannot be run ends with 127") {
  const ScriptProgram script;
  const WorkerProgram missing{
      "/no/such/program", {"x"}, "\"worker\":[]", script.program.input, script.program.not_theirs};
  WorkerProcess process({.index = 0}, "");
  process.start(missing);
  const auto end = end_of(process);
  REQUIRE(end.has_value());
  CHECK(end->code == 127);
}

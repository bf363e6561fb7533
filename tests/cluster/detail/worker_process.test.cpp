#include "lockstep/cluster/detail/worker_process.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "cluster/script_program.hpp"
#include "lockstep/cluster/cluster_from_environment.hpp"

using namespace lockstep::detail;
using namespace std::chrono_literals;
using lockstep::detail::LaunchedTask;
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

TEST_CASE("launched task: TF_CONFIG of a worker and of a server") {
  const std::string cluster = R"("worker":["127.0.0.1:1","127.0.0.1:2"],"ps":["127.0.0.1:3"])";
  const LaunchedTask second{.index = 1}, server{.index = 0, .is_server = true};
  CHECK(second.name() == "worker 1");
  CHECK(server.name() == "server 0");
  const lockstep::Cluster of_worker = lockstep::parse_tf_config(second.tf_config(cluster));
  CHECK(of_worker.rank() == 1);
  CHECK(of_worker.world_size() == 2);
  CHECK(of_worker.spec.ps.size() == 1);
  const lockstep::Cluster of_server = lockstep::parse_tf_config(server.tf_config(cluster));
  CHECK(of_server.is_parameter_server());
  CHECK(of_server.task.index == 0);
  CHECK(of_server.spec.ps.front() == "127.0.0.1:3");
}

TEST_CASE("launched task: two jobs have two names, of digits and a hyphen") {
  const std::string name = lockstep::detail::new_job_name();
  CHECK(name != lockstep::detail::new_job_name());
  CHECK(name.find_first_not_of("0123456789-") == std::string::npos);
}

namespace {

/// A stream with the prefix "[1] ", what is written to it, and what it shows.
struct Rig {
  Pipe in, out;
  Descriptor writer = std::move(in.write);
  PrefixedStream stream{std::move(in.read), out.write.get(), "[1] ", "\036note "};

  void write(std::string_view text) const {
    REQUIRE(::write(writer.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  [[nodiscard]] std::string shown() const {
    char text[4096];
    const ssize_t size = ::read(out.read.get(), text, sizeof text);
    return {text, size > 0 ? static_cast<std::size_t>(size) : 0};
  }
};

}  // namespace

TEST_CASE("prefixed stream: shows complete lines, and the rest at the end") {
  Rig rig;
  CHECK_FALSE(rig.stream.pump());
  rig.write("one\ntwo\nthr");
  CHECK(rig.stream.pump());
  CHECK(rig.shown() == "[1] one\n[1] two\n");
  rig.write("ee");
  CHECK(rig.stream.pump());
  CHECK(rig.shown().empty());
  rig.writer.close();
  CHECK_FALSE(rig.stream.pump());
  CHECK(rig.shown() == "[1] three\n");
  CHECK_FALSE(rig.stream.source().is_open());
}

TEST_CASE("prefixed stream: of a line that was drawn several times, the last one is shown") {
  Rig rig;
  rig.write("1/3\r2/3\r3/3\r\n");
  CHECK(rig.stream.pump());
  CHECK(rig.shown() == "[1] 3/3\n");
}

TEST_CASE("prefixed stream: what follows the mark is kept, wherever it stands in a line") {
  Rig rig;
  rig.write("\036note a\n1/3\036note b\none\n");
  CHECK(rig.stream.pump());
  CHECK(rig.stream.take_marked() == "a\nb\n");
  CHECK(rig.stream.take_marked().empty());
  CHECK(rig.shown() == "[1] 1/3\n[1] one\n");
}

TEST_CASE("prefixed stream: output without a reader is lost, and the error is kept") {
  Rig rig;
  rig.out.write.close();
  rig.write("lost\n");
  CHECK(rig.stream.pump());
  CHECK(rig.stream.failure() == EBADF);
}

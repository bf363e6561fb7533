#include "lockstep/cluster/detail/worker_process.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/script_program.hpp"
#include "lockstep/cluster/cluster_from_environment.hpp"
#include "lockstep/cluster/launcher.hpp"
#include "support/messages.hpp"
#include "support/process.hpp"
#include "support/temporary_folder.hpp"

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

using lockstep::detail::WorkerNote;

TEST_CASE("launched worker: its name says what it is, and where") {
  CHECK(LaunchedWorker(1, 0).name() == "worker 1");
  CHECK(LaunchedWorker(1, 0, "b").name() == "worker 1 on host b");
  const LaunchedWorker server({.index = 0, .is_server = true}, 3, 0);
  CHECK(server.name() == "server 0");
  CHECK(server.index == 3);  // behind three workers
}

TEST_CASE("launched worker: how it ended, in words") {
  LaunchedWorker worker(1, 0);
  worker.end = {.code = 7};
  CHECK(worker.how_it_ended() == "exit code 7");
  worker.end = {.code = 128 + SIGKILL, .signal = SIGKILL};
  CHECK(worker.how_it_ended() == "killed by signal 9 (Killed)");
  worker.hung = "lost to worker 0 (was silent for 10 s)";
  CHECK(worker.how_it_ended() == "lost to worker 0 (was silent for 10 s) and killed");
}

TEST_CASE("launched worker: 255 is ssh's exit code, of a worker on another host alone") {
  LaunchedWorker here(1, 0), there(1, 0, "b");
  here.end.code = there.end.code = 255;
  CHECK(here.how_it_ended() == "exit code 255");
  CHECK(there.how_it_ended() ==
        "exit code 255 of ssh: it could not connect, or lost the connection");
  there.end.code = 3;
  CHECK(there.how_it_ended() == "exit code 3");
}

TEST_CASE("launched worker: a successor begins without its predecessor's history") {
  const ScriptProgram program;
  LaunchedWorker worker(0, 2);
  worker.end = {.code = 137, .signal = 9};
  worker.order = 4;
  worker.by_peer = worker.by_launcher = worker.keeps_others_waiting = true;
  worker.has_agreed_to_stop = worker.came_back = worker.left_out = true;
  worker.hung.emplace();
  worker.lost_another = worker.back_at = LaunchedWorker::Clock::now();
  worker.start_again(program.program);
  CHECK(worker.process.lives());
  CHECK(worker.was_started_again);
  CHECK(worker.end.code == 0);
  CHECK(worker.end.signal == 0);
  CHECK(worker.order == 0);
  CHECK_FALSE((worker.by_peer || worker.by_launcher || worker.keeps_others_waiting));
  CHECK_FALSE((worker.has_agreed_to_stop || worker.came_back || worker.left_out));
  CHECK_FALSE((worker.hung || worker.lost_another || worker.back_at));
  CHECK(worker.restarts_left == 2);  // who starts it counts these
  CHECK_FALSE(worker.has_succeeded());
  worker.process.end();
  CHECK(worker.has_succeeded());
}

TEST_CASE("launched worker: it delays a stop while it lives, others wait, and it has not agreed") {
  const ScriptProgram program;
  LaunchedWorker worker(0, 0);
  worker.keeps_others_waiting = true;
  CHECK_FALSE(worker.delays_stop());  // it does not live
  worker.process.start(program.program);
  CHECK(worker.delays_stop());
  worker.has_agreed_to_stop = true;
  CHECK_FALSE(worker.delays_stop());
  worker.has_agreed_to_stop = false;
  worker.hung.emplace();  // it has been killed for this
  CHECK_FALSE(worker.delays_stop());
  worker.hung.reset();
  worker.keeps_others_waiting = false;
  CHECK_FALSE(worker.delays_stop());
  worker.process.end();
}

TEST_CASE("launched worker: its output is open until the last of its two streams has ended") {
  const ScriptProgram program("exec >&-; exec sleep 60");
  LaunchedWorker worker(0, 0);
  CHECK_FALSE(worker.has_open_output());
  worker.process.start(program.program);
  PrefixedStream& out = worker.process.output()[0];
  for (int i = 0; i < 4000 && out.source().is_open(); ++i) {
    out.pump();
    std::this_thread::sleep_for(5ms);
  }
  CHECK_FALSE(out.source().is_open());
  CHECK(worker.has_open_output());
  worker.process.finish_output();
  CHECK_FALSE(worker.has_open_output());
  worker.process.end();
}

TEST_CASE("worker note: kind, peer and reason") {
  const WorkerNote note("lost 127.0.0.1:4711 was silent for 10 s");
  CHECK(note.kind == "lost");
  CHECK(note.about == "127.0.0.1:4711");
  CHECK(note.text == "was silent for 10 s");
}

TEST_CASE("worker note: parts that are missing are empty") {
  const WorkerNote stops("stops");
  CHECK(stops.kind == "stops");
  CHECK(stops.about.empty());
  CHECK(stops.text.empty());
  CHECK(stops.time().time_since_epoch().count() == 0);
  CHECK(WorkerNote("").kind.empty());
}

TEST_CASE("worker note: a time of the clock that all processes share") {
  const WorkerNote met("met 123456789");
  CHECK(met.time().time_since_epoch().count() == 123456789);
  CHECK(WorkerNote("met soon").time().time_since_epoch().count() == 0);
}

TEST_CASE("signal pipe: a signal can be read, once, and an ignored one cannot") {
  void (*const former)(int) = ::signal(SIGHUP, SIG_IGN);
  {
    const SignalPipe pipe;
    CHECK(pipe.take() == 0);
    ::raise(SIGHUP);
    CHECK(pipe.take() == 0);
    ::raise(SIGTERM);
    CHECK(pipe.take() == SIGTERM);
    ::raise(SIGUSR1);
    CHECK(pipe.take() == SIGUSR1);
    CHECK(pipe.take() == 0);
  }
  ::signal(SIGHUP, former);
}

TEST_CASE("blocked signals: come when they are released") {
  const SignalPipe pipe;
  const BlockedSignals blocked;
  ::raise(SIGINT);
  CHECK(pipe.take() == 0);
  blocked.release();
  CHECK(pipe.take() == SIGINT);
}

namespace {

void (*handler_of(int signal))(int) {
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  return action.sa_handler;
}

void handler(int) {}

}  // namespace

TEST_CASE("ignored signals: those without a handler, until they are restored") {
  void (*const former_pipe)(int) = ::signal(SIGPIPE, SIG_DFL);
  void (*const former_size)(int) = ::signal(SIGXFSZ, &handler);
  const lockstep::detail::IgnoredSignals ignored;
  CHECK((handler_of(SIGPIPE) == SIG_IGN));
  CHECK((handler_of(SIGXFSZ) == &handler));
  ignored.restore();
  CHECK((handler_of(SIGPIPE) == SIG_DFL));
  CHECK((handler_of(SIGXFSZ) == &handler));
  ::signal(SIGPIPE, former_pipe);
  ::signal(SIGXFSZ, former_size);
}

using namespace lockstep_test;
using Words = std::vector<std::string>;

namespace {

/// Another host: a folder, and a shell that gets what ssh would pass on.
class OtherHost {
 public:
  OtherHost() {
    start.folder = folder_.path("it's $HOME");
    std::filesystem::create_directory(start.folder);
  }

  RemoteStart start{.meeting = "a:1", .job = "j", .workers = 2};

  /// Runs a shell script as worker 1, to its end. The input stays open, and goes on with `later`
  /// when the script has made the file `ready`.
  [[nodiscard]] Finished run(const std::string& script, const std::string& later = "") const {
    return run_shell(R"sh(
      mkfifo in && exec 8<>in && printf %s "$INPUT" >&8 || exit 99  # opened so, it does not end
      [ -z "$LATER" ] || {
        for i in $(seq 400); do [ ! -e "$READY" ] || break; sleep 0.05; done
        printf %s "$LATER" >&8
      } >/dev/null 2>&1 &
      sh -c "$COMMAND" <&8)sh",
                     script, later);
  }
  /// The same with an input that ends behind the variables.
  [[nodiscard]] Finished run_cut_off(const std::string& script) const {
    return run_shell(R"sh(printf %s "$INPUT" | sh -c "$COMMAND")sh", script, "");
  }

 private:
  [[nodiscard]] Finished run_shell(const std::string& shell, const std::string& script,
                                   const std::string& later) const {
    return run_process({"/bin/sh", "-c", "cd \"$FOLDER\" || exit 99\n" + shell},
                       {{"FOLDER", folder_.path()},
                        {"READY", start.folder + "/ready"},
                        {"INPUT", remote_variables(start, 1)},
                        {"LATER", later},
                        {"COMMAND", remote_command(start, "/bin/sh", {"sh", "-c", script})},
                        {"TF_CONFIG", "the launcher's own"}},
                       30s);
  }

  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("remote worker: a word for a shell is one word, whatever it holds") {
  CHECK(shell_word("") == "''");
  CHECK(shell_word("it's $HOME") == R"('it'\''s $HOME')");
  for (const std::string text : {"a b", "$(exit 3)", "\"", "''", "a\nb", "*", "\\", "-n"}) {
    CAPTURE(text);
    const Finished finished =
        run_process({"/bin/sh", "-c", "printf '%s.' " + shell_word(text)}, {}, 30s);
    CHECK(finished.output == text + ".");
  }
}

TEST_CASE("remote worker: the words of a command, however many spaces are between them") {
  CHECK(words_of("  ssh -p  22 ") == Words{"ssh", "-p", "22"});
  CHECK(words_of("ssh") == Words{"ssh"});
  CHECK(words_of("").empty());
  CHECK(words_of("   ").empty());
}

TEST_CASE("remote worker: its input is its variables, its place, and a dot") {
  const RemoteStart start{
      .meeting = "a:1", .job = "j", .environment = {"A=b c", "D="}, .workers = 2};
  CHECK(remote_variables(start, 1) ==
        "A=b c\nD=\nLOCKSTEP_LAUNCHER=hosts\nLOCKSTEP_NOTE_FD=9\nLOCKSTEP_RANK=1\n"
        "LOCKSTEP_WORLD_SIZE=2\nLOCKSTEP_MEETING_ADDRESS=a:1\nLOCKSTEP_JOB_ID=j\n.\n");
}

TEST_CASE("remote worker: it runs in the folder, with these variables and without an input") {
  OtherHost host;
  host.start.environment = {"SECRET=it's  $HOME"};
  const Finished finished = host.run(R"sh(
    pwd; echo "$SECRET, $LOCKSTEP_RANK, ${TF_CONFIG-unset}"; read -r line; echo "[$line]"; exit 7)sh");
  CHECK(finished.exit_code == 7);
  CHECK(finished.output == host.start.folder + "\nit's  $HOME, 1, unset\n[]\n");
}

TEST_CASE("remote worker: its notes are marked lines of the standard error") {
  const Finished finished =
      OtherHost().run("echo met 5 >&$LOCKSTEP_NOTE_FD; echo shown; echo stops >&$LOCKSTEP_NOTE_FD");
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 0);
  CHECK(contains(finished.output, std::string(remote_note_mark) + "met 5\n"));
  CHECK(contains(finished.output, std::string(remote_note_mark) + "stops\n"));
  CHECK(contains(finished.output, "shown\n"));
  CHECK_FALSE(contains(finished.output, std::string(remote_note_mark) + "shown"));
}

TEST_CASE("remote worker: the name of a signal on its input reaches it") {
  const Finished finished = OtherHost().run(R"sh(
    trap 'echo told; exit 3' TERM
    : > ready
    for i in $(seq 400); do sleep 0.05; done)sh",
                                            "TERM\n");
  CHECK(finished.exit_code == 3);
  CHECK(finished.output == "told\n");
}

TEST_CASE("remote worker: it is killed when its input ends") {
  const Finished finished = OtherHost().run_cut_off("exec sleep 60");
  CHECK_FALSE(finished.timed_out);
  CHECK(finished.exit_code == 128 + SIGKILL);
}

TEST_CASE("remote worker: without its folder it does not begin") {
  OtherHost host;
  host.start.folder += " that is nowhere";
  const Finished finished = host.run("echo begun");
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 125);
  CHECK(contains(finished.output, "that is nowhere"));
  CHECK_FALSE(contains(finished.output, "begun"));
}

using lockstep::ConfigurationError;
using lockstep::detail::remote_start;
using lockstep::detail::RemoteStart;
using Words = std::vector<std::string>;

namespace {

/// A variable of this process, for a while.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const former = std::getenv(name)) former_ = former;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { former_ ? ::setenv(name_, former_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> former_;
};

RemoteStart on(const Words& hosts) { return remote_start(hosts, "ssh -p  22"); }

bool contains(const Words& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

TEST_CASE("remote start: workers on this machine need none") {
  CHECK(remote_start({}, "").ssh.empty());
  CHECK(remote_start({}, "").workers == 0);
}

TEST_CASE(
    "remote start: they meet on the first host, or on the loopback interface of the only one") {
  const Variable nowhere("LOCKSTEP_MEETING_ADDRESS", nullptr);
  const RemoteStart two = on({"me@a", "b", "a"});
  CHECK(two.meeting.starts_with("a:"));
  CHECK(two.workers == 3);
  CHECK(two.ssh == Words{"ssh", "-p", "22"});
  CHECK(two.folder == std::filesystem::current_path().string());
  CHECK(on({"me@a", "me@a"}).meeting.starts_with("127.0.0.1:"));
  CHECK(on({"fd00::1", "b"}).meeting.starts_with("[fd00::1]:"));
}

TEST_CASE("remote start: or where LOCKSTEP_MEETING_ADDRESS says, if that is an address") {
  const Variable given("LOCKSTEP_MEETING_ADDRESS", "head:7");
  CHECK(on({"a", "a"}).meeting == "head:7");
  const Variable wrong("LOCKSTEP_MEETING_ADDRESS", "head");
  CHECK_THROWS_WITH_AS((void)on({"a", "b"}), doctest::Contains("head"), ConfigurationError);
}

TEST_CASE("remote start: two launchers have two jobs") { CHECK(on({"a"}).job != on({"a"}).job); }

TEST_CASE("remote start: the variables of the library are passed on, and no others") {
  const Variable secret("LOCKSTEP_CLUSTER_SECRET", "a b"), library("LD_LIBRARY_PATH", "/x"),
      listens("LOCKSTEP_LISTEN_FD", "3"), other("OF_THE_USER", "y");
  const Words passed_on = on({"a"}).environment;
  CHECK(contains(passed_on, "LOCKSTEP_CLUSTER_SECRET=a b"));
  CHECK(contains(passed_on, "LD_LIBRARY_PATH=/x"));
  CHECK_FALSE(contains(passed_on, "LOCKSTEP_LISTEN_FD=3"));
  CHECK_FALSE(contains(passed_on, "OF_THE_USER=y"));
}

TEST_CASE("remote start: no command, and a variable of two lines, are refused") {
  CHECK_THROWS_WITH_AS((void)remote_start({"a"}, "  "), "the ssh command is empty",
                       ConfigurationError);
  const Variable lines("LOCKSTEP_RUN_ID", "a\nb");
  CHECK_THROWS_WITH_AS((void)on({"a"}), doctest::Contains("LOCKSTEP_RUN_ID"), ConfigurationError);
}

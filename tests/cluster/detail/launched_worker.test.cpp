#include "lockstep/cluster/detail/worker_process.hpp"

#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "cluster/script_program.hpp"

using namespace lockstep::detail;
using namespace std::chrono_literals;
using lockstep::detail::WorkerNote;
using lockstep_test::ScriptProgram;

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

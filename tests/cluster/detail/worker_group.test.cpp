#include "lockstep/cluster/detail/worker_group.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cluster/script_program.hpp"
#include "support/captured_stderr.hpp"
#include "support/messages.hpp"

using namespace lockstep::detail;
using namespace std::chrono_literals;
using lockstep_test::contains;

namespace {

WorkerGroup group(int workers, int servers) {
  return WorkerGroup(workers, servers, 1, "/bin/sh", {"sh", "-c", "exec sleep 60"});
}

}  // namespace

TEST_CASE("worker group: workers by index, servers behind them, each at an address") {
  WorkerGroup all = group(2, 1);
  CHECK(all.all().size() == 3);
  CHECK(all.has_servers());
  CHECK(all[0].name() == "worker 0");
  CHECK(all[1].name() == "worker 1");
  CHECK(all[2].name() == "server 0");
  CHECK(all.find(all[1].process.address()) == &all[1]);
  CHECK(all.find("127.0.0.1:0") == nullptr);
  CHECK_FALSE(group(1, 0).has_servers());
}

TEST_CASE("worker group: the command of a successor has the whole cluster, and is a shell's") {
  WorkerGroup all = group(2, 1);
  const std::string command = all.command(all[1]);
  for (const LaunchedWorker& each : all) CHECK(contains(command, each.process.address()));
  CHECK(contains(command, R"("type":"worker","index":1)"));
  CHECK(contains(command, "'exec sleep 60'"));
}

TEST_CASE("worker group: signals go to workers, to servers, or to all") {
  WorkerGroup all = group(1, 1);
  CHECK_FALSE(all.any_lives());
  all.start_all();
  CHECK(all.any_worker_lives());
  all.signal_workers(SIGKILL);
  for (int i = 0; i < 1000 && all.any_worker_lives(); ++i) {
    (void)all[0].process.reap();
    std::this_thread::sleep_for(10ms);
  }
  CHECK_FALSE(all.any_worker_lives());
  CHECK(all.any_lives());  // the server
  all.signal_all(SIGKILL);
  for (int i = 0; i < 1000 && all.any_lives(); ++i) {
    (void)all[1].process.reap();
    std::this_thread::sleep_for(10ms);
  }
  CHECK_FALSE(all.any_lives());
}

TEST_CASE("worker group: all wait in vain when each living worker has lost another one") {
  WorkerGroup all = group(2, 0);
  all.start_all();
  const auto begin = WorkerGroup::Clock::now();
  CHECK_FALSE(all.all_wait_in_vain_since(begin).has_value());
  all[0].lost_another = begin + 1s;
  CHECK_FALSE(all.all_wait_in_vain_since(begin).has_value());
  all[1].lost_another = begin + 3s;
  CHECK(all.all_wait_in_vain_since(begin) == begin + 3s);
}

using lockstep::detail::HangDetector;

namespace {

using Clock = HangDetector::Clock;

const Clock::time_point start{1h};

/// Workers that have begun at `start` and met a second later.
HangDetector cluster_of(int workers) {
  HangDetector detector(static_cast<std::size_t>(workers));
  for (int worker = 0; worker < workers; ++worker) detector.began(worker, start);
  for (int worker = 0; worker < workers; ++worker) detector.met(worker, start + 1s);
  return detector;
}

/// The hung worker that all others have named in time; -1 if there is none.
int named(HangDetector& detector, Clock::time_point now) {
  const auto hung = detector.verdict(now + HangDetector::time_to_settle);
  return hung ? hung->worker : -1;
}

}  // namespace

TEST_SUITE("hang detector") {
  TEST_CASE("of two workers, one accusation is enough, a second later") {
    HangDetector detector = cluster_of(2);
    CHECK_FALSE(detector.due());
    detector.lost(0, 1, "was silent", start + 9s);
    CHECK(detector.due() == start + 10s);
    CHECK_FALSE(detector.verdict(start + 9900ms));
    const auto hung = detector.verdict(start + 10s);
    REQUIRE(hung);
    CHECK(hung->worker == 1);
    CHECK(hung->lost_to == 0);
    CHECK(hung->why == "was silent");
    CHECK_FALSE(detector.due());
    CHECK_FALSE(detector.verdict(start + 20s));
  }

  TEST_CASE("a worker that ends by itself does not hang, and its successor is not accused") {
    HangDetector detector = cluster_of(2);
    detector.lost(0, 1, "closed the connection", start + 9s);
    detector.ended(1);
    CHECK_FALSE(detector.due());
    detector.lost(0, 1, "closed the connection", start + 9s);  // the note came late
    CHECK_FALSE(detector.due());
    detector.began(1, start + 9s);
    detector.lost(0, 1, "closed the connection", start + 9s);  // and later still
    CHECK_FALSE(detector.due());
    detector.met(0, start + 10s);
    detector.met(1, start + 10s);
    detector.lost(0, 1, "was silent", start + 20s);
    CHECK(named(detector, start + 20s) == 1);
  }

  TEST_CASE("what a worker has said still counts after its end, until it is connected again") {
    HangDetector detector = cluster_of(2);
    detector.lost(0, 1, "was silent", start + 9s);
    detector.ended(0);
    detector.began(0, start + 9s);
    CHECK(named(detector, start + 9s) == 1);
    detector = cluster_of(2);
    detector.lost(0, 1, "was silent", start + 9s);
    detector.met(0, start + 10s);
    CHECK(named(detector, start + 10s) == -1);
  }

  TEST_CASE(
      "of several lost workers, the one that most peers name; in a tie, the one that the lowest "
      "rank names") {
    HangDetector detector = cluster_of(5);
    detector.lost(0, 3, "", start + 9s);
    detector.lost(1, 4, "", start + 9s);
    detector.lost(2, 4, "", start + 9s);
    CHECK(named(detector, start + 9s) == 4);
    detector.lost(1, 4, "", start + 19s);
    detector.lost(0, 3, "", start + 19s);
    CHECK(named(detector, start + 19s) == 3);
    detector.lost(0, 3, "", start + 29s);
    detector.lost(0, 4, "", start + 29s);  // the first accusation counts
    CHECK(named(detector, start + 29s) == 3);
  }

  TEST_CASE("a worker that has itself lost a peer does not hang") {
    HangDetector detector = cluster_of(3);
    detector.lost(0, 1, "", start + 9s);
    detector.lost(1, 0, "", start + 9s);
    CHECK(named(detector, start + 9s) == -1);
    detector.lost(0, 1, "", start + 19s);
    detector.lost(1, 2, "", start + 19s);
    CHECK(named(detector, start + 19s) == 2);
  }

  TEST_CASE(
      "a worker that is late in a start-up may be slow: it is accused when a successor misses it "
      "again") {
    HangDetector detector(2);
    detector.began(0, start);
    detector.began(1, start);
    detector.missed(0, 1, "", start + 300s);
    CHECK_FALSE(detector.due());
    detector.ended(0);
    detector.began(0, start + 300s);
    detector.missed(0, 1, "", start + 600s);
    CHECK(named(detector, start + 600s) == 1);
  }
}

using lockstep::detail::LaunchPhase;
using lockstep::detail::Phase;

namespace {

/// Workers that have ended with these exit codes, in order.
std::vector<LaunchedWorker> ended(const std::vector<int>& codes) {
  std::vector<LaunchedWorker> workers;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    LaunchedWorker& worker = workers.emplace_back(static_cast<int>(i), 0);
    worker.end.code = codes[i];
    worker.order = static_cast<int>(i) + 1;
  }
  return workers;
}

}  // namespace

TEST_CASE("launch result: 0 when all workers have ended with 0") {
  CHECK(first_failure(ended({0, 0})) == nullptr);
  CHECK(launch_result(ended({0, 0}), 0) == 0);
  CHECK(launch_result(ended({0, 0}), SIGINT) == 0);
}

TEST_CASE("launch result: workers that an elastic job has left out, if others came to the end") {
  auto workers = ended({137, 0});
  CHECK(launch_result(workers, 0) == 137);
  workers[0].left_out = true;
  CHECK(launch_result(workers, 0) == 0);
  workers[1].end.code = 138;
  workers[1].by_peer = workers[1].left_out = true;
  CHECK(launch_result(workers, 0) == 137);
}

TEST_CASE("launch result: a loss that an elastic job has survived is not what ends it later") {
  auto workers = ended({137, 143, 143});
  workers[0].left_out = true;
  CHECK(launch_result(workers, 0) == 143);
  workers[1].end.code = workers[2].end.code = 1;
  workers[1].by_peer = true;
  CHECK(launch_result(workers, 0) == 1);
}

TEST_CASE(
    "launch result: the first worker that failed by itself, not the first one that its end took "
    "along") {
  auto workers = ended({0, 138, 7, 9});
  workers[1].by_peer = true;
  CHECK(launch_result(workers, 0) == 7);
  workers[2].by_launcher = true;
  CHECK(launch_result(workers, 0) == 9);
  workers[3].end.code = 0;
  CHECK(launch_result(workers, 0) == 138);
}

TEST_CASE("launch result: a worker that was told to stop after the chief's end does not count") {
  auto workers = ended({0, 143});
  workers[1].by_launcher = true;
  CHECK(launch_result(workers, 0) == 0);
  workers[0].end.code = 1;
  CHECK(launch_result(workers, 0) == 1);
}

TEST_CASE("launch result: after a signal, the exit code of the signal") {
  auto workers = ended({5, 0});
  CHECK(launch_result(workers, SIGINT) == 130);
  CHECK(launch_result(workers, SIGTERM) == 143);
  CHECK(launch_result(workers, SIGHUP) == 143);
  CHECK(launch_result(workers, SIGUSR1) == 143);
}

TEST_CASE("launch result: no output was lost") {
  CHECK(code_with_lost_output(ended({0}), 0) == 0);
  CHECK(code_with_lost_output(ended({0}), 7) == 7);
}

TEST_CASE("launch phase: nothing is due while all is well, nor when all were killed") {
  LaunchPhase phase;
  CHECK(phase.is(Phase::running));
  CHECK_FALSE(phase.due().has_value());
  phase.enter(Phase::killed, 10s);
  CHECK(phase.is(Phase::killed));
  CHECK_FALSE(phase.is(Phase::running));
  CHECK_FALSE(phase.due().has_value());
}

TEST_CASE("launch phase: the next one is due when the grace of this one is over") {
  LaunchPhase phase;
  for (const Phase next : {Phase::failing, Phase::stopping}) {
    const auto before = Clock::now();
    phase.enter(next, 7s);
    const auto after = Clock::now();
    CHECK(phase.is(next));
    CHECK(phase.began() >= before);
    CHECK(phase.began() <= after);
    REQUIRE(phase.due().has_value());
    CHECK(*phase.due() == phase.began() + 7s);
  }
}

TEST_CASE("launch phase: without anything to wait for, the next one is due at once") {
  LaunchPhase phase;
  phase.enter(Phase::failing, 1h);
  const auto began = phase.began();
  phase.end_at(began + 1s);
  REQUIRE(phase.due().has_value());
  CHECK(*phase.due() == began + 1s);
  CHECK(phase.began() == began);
  phase.enter(Phase::stopping, 5s);  // has its own grace period
  CHECK(*phase.due() == phase.began() + 5s);
}

using lockstep_test::ScriptProgram;

namespace {

std::vector<LaunchedWorker> workers_of(int count) {
  std::vector<LaunchedWorker> workers;
  workers.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) workers.emplace_back(i, 0);
  return workers;
}

bool says(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}
bool goes_on(const ElasticJob& job) { return says(job.outlook(), "the others go on without it"); }

}  // namespace

TEST_CASE("elastic job: it is one as soon as a worker tells of its world") {
  ElasticJob job;
  CHECK_FALSE(job.is_elastic());
  job.heed(WorkerNote("world 1 0"));
  CHECK(job.is_elastic());
}

TEST_CASE("elastic job: more than half of a world go on without the others") {
  ElasticJob job;
  job.heed(WorkerNote("world 1 0 1 2 3"));
  job.ended(3);
  CHECK(goes_on(job));
  job.ended(2);
  CHECK_FALSE(goes_on(job));
  CHECK(says(job.outlook(), "no more than half"));
  job.heed(WorkerNote("world 2 0 1"));  // the others have formed a smaller one
  CHECK(goes_on(job));
  job.ended(2);  // is not one of it
  CHECK(goes_on(job));
}

TEST_CASE("elastic job: a note of an older world that comes late changes nothing") {
  ElasticJob job;
  job.heed(WorkerNote("world 2 0 1"));
  job.heed(WorkerNote("world 1 0 1 2 3"));
  job.ended(0);
  CHECK_FALSE(goes_on(job));  // 1 of 2, not 3 of 4
}

TEST_CASE("elastic job: when all have ended, their successors count worlds anew") {
  ElasticJob job;
  job.heed(WorkerNote("world 5 0 1 2"));
  for (const int worker : {0, 1, 2}) job.ended(worker);
  job.heed(WorkerNote("world 1 0 1"));
  job.ended(1);
  CHECK_FALSE(goes_on(job));
}

TEST_CASE("elastic job: successors count worlds anew, too, while a worker of the last one hangs") {
  ElasticJob job;
  job.heed(WorkerNote("world 4 0 1 2"));
  job.ended(1);
  job.heed(WorkerNote("world 1 1 2"));  // older, as worker 2 has not ended
  job.ended(2);
  CHECK(says(job.outlook(), "no more than half"));
  job.heed(WorkerNote("world 1 1 2"));
  CHECK(goes_on(job));
  job.ended(1);
  CHECK_FALSE(goes_on(job));  // 1 of 2
}

TEST_CASE("elastic job: names that are no numbers are left out") {
  ElasticJob job;
  job.heed(WorkerNote("world 1 0 -1 2"));
  job.ended(0);
  CHECK_FALSE(goes_on(job));  // 1 of 2
  ElasticJob broken;
  broken.heed(WorkerNote("world soon 0 1"));
  CHECK(broken.is_elastic());
  CHECK(goes_on(broken));
}

TEST_CASE("elastic job: all of a world come to the end together") {
  ElasticJob job;
  std::vector<LaunchedWorker> workers = workers_of(2);
  CHECK_FALSE(job.is_done(workers));  // not known to be elastic
  job.heed(WorkerNote("world 1 0 1"));
  CHECK(job.is_done(workers));  // none lives, and all have ended with 0
  workers[0].end.code = workers[1].end.code = 137;
  CHECK_FALSE(job.is_done(workers));
  workers[0].end.code = 0;
  workers[0].task.is_server = true;  // of a server, the end says nothing
  CHECK_FALSE(job.is_done(workers));
}

TEST_CASE("elastic job: those that live and are not at work are left behind when it is done") {
  const ScriptProgram idle;
  ElasticJob job;
  std::vector<LaunchedWorker> workers = workers_of(3);
  workers[1].process.start(idle.program);
  workers[2].end.code = 137;
  job.heed(WorkerNote("world 1 0"));
  CHECK(job.leaves_some_behind(workers));
  workers[0].end.code = 1;
  CHECK_FALSE(job.leaves_some_behind(workers));  // it is not done
  workers[0].end.code = 0;
  job.heed(WorkerNote("world 2 0 1"));
  CHECK_FALSE(job.leaves_some_behind(workers));  // 1 is at work
  workers[1].process.end();
  CHECK_FALSE(job.leaves_some_behind(workers));  // none lives
}

TEST_CASE("elastic job: it goes on without one that was killed, if another can") {
  const ScriptProgram idle;
  ElasticJob job;
  std::vector<LaunchedWorker> workers = workers_of(2);
  workers[0].end.code = 137;
  workers[1].process.start(idle.program);
  CHECK_FALSE(job.goes_without(workers[0], workers));  // not known to be elastic
  job.heed(WorkerNote("world 1 0 1"));
  CHECK(job.goes_without(workers[0], workers));
  workers[0].has_agreed_to_stop = true;
  CHECK_FALSE(job.goes_without(workers[0], workers));
  workers[0].has_agreed_to_stop = false;
  workers[0].end.code = 1;  // its own mistake
  CHECK_FALSE(job.goes_without(workers[0], workers));
  workers[0].end.code = 138;
  workers[1].process.end();
  workers[1].end.code = 138;
  CHECK_FALSE(job.goes_without(workers[0], workers));  // no worker is left
  workers[1].end.code = 0;
  CHECK(job.goes_without(workers[0], workers));
}

using lockstep_test::CapturedStderr;

namespace {

/// A worker and a server that run these shell scripts.
class Job {
 public:
  Job(const std::string& worker, const std::string& server)
      : group(1, 1, 0, "/bin/sh",
              {"sh", "-c",
               "case $TF_CONFIG in *'\"type\":\"worker\"'*) " + worker + ";; *) " + server +
                   ";; esac"}) {
    group.start_all();
  }

  /// Waits for the end of a process; not for ever.
  ProcessEnd end_of(int index) {
    for (const auto end = Clock::now() + 20s; Clock::now() < end;
         std::this_thread::sleep_for(5ms)) {
      const std::optional<ProcessEnd> ended = group[index].process.reap();
      if (ended) return group[index].end = *ended;
    }
    FAIL("process ", index, " has not ended");
    return {};
  }
  void wait_for_note(int index) {
    for (const auto end = Clock::now() + 20s; Clock::now() < end; std::this_thread::sleep_for(5ms))
      if (group[index].process.take_note()) return;
    FAIL("process ", index, " has sent no note");
  }

  WorkerGroup group;
};

}  // namespace

TEST_CASE("servers end: not while a worker lives, and not when they have ended themselves") {
  Job job("exec sleep 60", "exit 0");
  ServersEnd end(job.group, 1s, 1s);
  end.keep(Clock::now());
  CHECK_FALSE(end.due().has_value());
  job.end_of(1);
  job.group[0].process.signal(SIGKILL);
  job.end_of(0);
  end.keep(Clock::now());
  CHECK_FALSE(end.due().has_value());
  CHECK_FALSE(end.has_told());
}

TEST_CASE("servers end: when all workers have ended well, they have time to leave") {
  Job job("exit 0", "exec sleep 60");
  ServersEnd end(job.group, 10s, 3s);
  job.end_of(0);
  const auto now = Clock::now();
  const CapturedStderr captured;
  end.keep(now);
  CHECK(end.due() == now + 10s);
  end.keep(now + 9s);
  CHECK(end.due() == now + 10s);
  CHECK_FALSE(end.has_told());
  CHECK(captured.text().empty());
  end.keep(now + 10s);
  CHECK(end.has_told());
  CHECK(end.due() == now + 13s);
  CHECK(captured.text().find("not all parameter servers: these are told to stop") !=
        std::string::npos);
  CHECK(job.end_of(1).signal == SIGTERM);
}

TEST_CASE(
    "servers end: when a worker has failed, they are told at once, also those that stand still") {
  Job job("exit 1", "exec sleep 60");
  ServersEnd end(job.group, 10s, 3s);
  job.group[1].process.signal(SIGSTOP);
  job.end_of(0);
  const auto now = Clock::now();
  const CapturedStderr captured;
  end.keep(now);
  CHECK(end.has_told());
  CHECK(end.due() == now + 3s);
  CHECK(captured.text().empty());  // there is another message, of the worker
  CHECK(job.end_of(1).signal == SIGTERM);
}

TEST_CASE("servers end: those that do not stop when they are told are killed") {
  Job job("exit 1", "trap '' TERM; echo ready > /proc/self/fd/$LOCKSTEP_NOTE_FD; exec sleep 60");
  ServersEnd end(job.group, 10s, 3s);
  job.wait_for_note(1);
  job.end_of(0);
  const auto now = Clock::now();
  end.keep(now);
  end.keep(now + 2s);
  std::this_thread::sleep_for(50ms);
  CHECK_FALSE(job.group[1].process.reap().has_value());
  end.keep(now + 3s);
  CHECK(job.end_of(1).signal == SIGKILL);
}

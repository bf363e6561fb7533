#include "lockstep/cluster/detail/worker_group.hpp"

#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <vector>

using namespace lockstep::detail;
using namespace std::chrono_literals;
using lockstep::detail::LaunchStage;
using lockstep::detail::Stage;

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

using Clock = LaunchStage::Clock;

TEST_CASE("launch stage: nothing is due while all is well, nor when all were killed") {
  LaunchStage stage;
  CHECK(stage.is(Stage::running));
  CHECK_FALSE(stage.due().has_value());
  stage.enter(Stage::killed, 10s);
  CHECK(stage.is(Stage::killed));
  CHECK_FALSE(stage.is(Stage::running));
  CHECK_FALSE(stage.due().has_value());
}

TEST_CASE("launch stage: the next one is due when the grace of this one is over") {
  LaunchStage stage;
  for (const Stage next : {Stage::failing, Stage::stopping}) {
    const auto before = Clock::now();
    stage.enter(next, 7s);
    const auto after = Clock::now();
    CHECK(stage.is(next));
    CHECK(stage.began() >= before);
    CHECK(stage.began() <= after);
    REQUIRE(stage.due().has_value());
    CHECK(*stage.due() == stage.began() + 7s);
  }
}

TEST_CASE("launch stage: without anything to wait for, the next one is due at once") {
  LaunchStage stage;
  stage.enter(Stage::failing, 1h);
  const auto began = stage.began();
  stage.end_at(began + 1s);
  REQUIRE(stage.due().has_value());
  CHECK(*stage.due() == began + 1s);
  CHECK(stage.began() == began);
  stage.enter(Stage::stopping, 5s);  // has its own grace period
  CHECK(*stage.due() == stage.began() + 5s);
}

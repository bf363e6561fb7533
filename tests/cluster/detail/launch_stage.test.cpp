#include "lockstep/cluster/detail/launch_stage.hpp"

#include <doctest/doctest.h>

#include <chrono>

using namespace std::chrono_literals;
using lockstep::detail::LaunchStage;
using lockstep::detail::Stage;
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
  stage.enter(Stage::stopping, 5s);  // has a grace of its own
  CHECK(*stage.due() == stage.began() + 5s);
}

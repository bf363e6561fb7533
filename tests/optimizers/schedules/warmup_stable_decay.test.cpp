#include "lockstep/optimizers/schedules/warmup_stable_decay.hpp"

#include <doctest/doctest.h>

#include "optimizers/schedules/schedule_testing.hpp"

using lockstep::WarmupStableDecay;
using lockstep_test::check_refused;

TEST_CASE("WarmupStableDecay: as llm.c computes it") {
  const WarmupStableDecay schedule{
      .learning_rate = 0.4, .steps = 1000, .warmup_steps = 10, .final_fraction = 0.5};
  CHECK(schedule(0) == doctest::Approx(0.04));
  CHECK(schedule(9) == 0.4);
  CHECK(schedule(10) == 0.4);
  CHECK(schedule(800) == 0.4);
  CHECK(schedule(850) == doctest::Approx(0.2 + 0.2 * 0.5));
  CHECK(schedule(1000) == 0.2);
  CHECK(schedule(5000) == 0.2);
}

TEST_CASE("WarmupStableDecay: options") {
  CHECK(WarmupStableDecay{}.description() ==
        "WarmupStableDecay(learning_rate=0.001, steps=1000, warmup_steps=0, decay_fraction=0.2, "
        "final_fraction=0)");
  check_refused(WarmupStableDecay{.learning_rate = -1});
  check_refused(WarmupStableDecay{.steps = 0});
  check_refused(WarmupStableDecay{.warmup_steps = -1});
  check_refused(WarmupStableDecay{.decay_fraction = 1.5});
  check_refused(WarmupStableDecay{.final_fraction = -1});
}

#include "lockstep/optimizers/schedules/cosine_decay.hpp"

#include <doctest/doctest.h>

#include "optimizers/schedules/schedule_testing.hpp"

using lockstep::CosineDecay;
namespace golden = lockstep_test::golden;
using lockstep_test::check_refused;
using lockstep_test::check_schedule;

TEST_CASE("CosineDecay: golden values") {
  check_schedule(CosineDecay{.initial_learning_rate = 0.3, .decay_steps = 1000, .alpha = 0.1},
                 golden::cosine_decay);
  check_schedule(CosineDecay{.initial_learning_rate = 0.01,
                             .decay_steps = 1000,
                             .alpha = 0.1,
                             .warmup_target = 0.1,
                             .warmup_steps = 100},
                 golden::cosine_decay_warmup);
}

TEST_CASE("CosineDecay: the corners are exact") {
  const CosineDecay schedule{
      .initial_learning_rate = 0, .decay_steps = 1000, .warmup_target = 0.1, .warmup_steps = 100};
  CHECK(schedule(0) == 0);
  CHECK(schedule(50) == 0.05);
  CHECK(schedule(100) == 0.1);
  CHECK(schedule(600) == 0.05);
  CHECK(schedule(1100) == 0);
}

TEST_CASE("CosineDecay: options") {
  CHECK(CosineDecay{.initial_learning_rate = 0.5}.description() ==
        "CosineDecay(initial_learning_rate=0.5, decay_steps=1000, alpha=0, warmup_target=none, "
        "warmup_steps=0)");
  check_refused(CosineDecay{.initial_learning_rate = -1});
  check_refused(CosineDecay{.alpha = -1});
  check_refused(CosineDecay{.warmup_target = -1});
  check_refused(CosineDecay{.warmup_steps = -1});
  CHECK_THROWS_WITH_AS(CosineDecay{.decay_steps = 0}.validate(),
                       "CosineDecay: decay_steps is 0; expected at least 1",
                       lockstep::ConfigurationError);
  CHECK_THROWS_WITH_AS(CosineDecay{.warmup_steps = 5}.validate(),
                       "CosineDecay: warmup_steps are given, but no warmup_target; set it to the "
                       "rate after the warm-up",
                       lockstep::ConfigurationError);
}

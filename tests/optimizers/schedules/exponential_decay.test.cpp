#include "lockstep/optimizers/schedules/exponential_decay.hpp"

#include <doctest/doctest.h>

#include "optimizers/schedules/schedule_testing.hpp"

using lockstep::ExponentialDecay;
namespace golden = lockstep_test::golden;
using lockstep_test::check_refused;
using lockstep_test::check_schedule;

TEST_CASE("ExponentialDecay: golden values") {
  check_schedule(ExponentialDecay{.initial_learning_rate = 0.1, .decay_steps = 100},
                 golden::exponential_decay);
  check_schedule(
      ExponentialDecay{.initial_learning_rate = 0.1, .decay_steps = 100, .staircase = true},
      golden::exponential_decay_staircase);
}

TEST_CASE("ExponentialDecay: options") {
  CHECK(ExponentialDecay{}.description() ==
        "ExponentialDecay(initial_learning_rate=0.001, decay_steps=1000, decay_rate=0.96, "
        "staircase=false)");
  check_refused(ExponentialDecay{.initial_learning_rate = -1});
  check_refused(ExponentialDecay{.decay_steps = 0});
  check_refused(ExponentialDecay{.decay_rate = -1});
}

#include "lockstep/optimizers/schedules/inverse_time_decay.hpp"

#include <doctest/doctest.h>

#include "optimizers/schedules/schedule_testing.hpp"

using lockstep::InverseTimeDecay;
namespace golden = lockstep_test::golden;
using lockstep_test::check_refused;
using lockstep_test::check_schedule;

TEST_CASE("InverseTimeDecay: golden values") {
  check_schedule(InverseTimeDecay{.initial_learning_rate = 0.1, .decay_steps = 100},
                 golden::inverse_time_decay);
  check_schedule(
      InverseTimeDecay{.initial_learning_rate = 0.1, .decay_steps = 100, .staircase = true},
      golden::inverse_time_decay_staircase);
}

TEST_CASE("InverseTimeDecay: options") {
  CHECK(InverseTimeDecay{}.description() ==
        "InverseTimeDecay(initial_learning_rate=0.001, decay_steps=1000, decay_rate=0.5, "
        "staircase=false)");
  check_refused(InverseTimeDecay{.initial_learning_rate = -1});
  check_refused(InverseTimeDecay{.decay_steps = 0});
  check_refused(InverseTimeDecay{.decay_rate = -1});
}

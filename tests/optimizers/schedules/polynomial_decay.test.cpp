#include "lockstep/optimizers/schedules/polynomial_decay.hpp"

#include <doctest/doctest.h>

#include "optimizers/schedules/schedule_testing.hpp"

using lockstep::PolynomialDecay;
namespace golden = lockstep_test::golden;
using lockstep_test::check_refused;
using lockstep_test::check_schedule;

TEST_CASE("PolynomialDecay: golden values") {
  check_schedule(
      PolynomialDecay{.initial_learning_rate = 0.1, .decay_steps = 100, .end_learning_rate = 0.01},
      golden::polynomial_decay);
  check_schedule(PolynomialDecay{.initial_learning_rate = 0.1,
                                 .decay_steps = 100,
                                 .end_learning_rate = 0.01,
                                 .power = 0.5,
                                 .cycle = true},
                 golden::polynomial_decay_cycle);
}

TEST_CASE("PolynomialDecay: options") {
  CHECK(PolynomialDecay{}.description() ==
        "PolynomialDecay(initial_learning_rate=0.001, decay_steps=1000, end_learning_rate=1e-04, "
        "power=1, "
        "cycle=false)");
  check_refused(PolynomialDecay{.initial_learning_rate = -1});
  check_refused(PolynomialDecay{.decay_steps = 0});
  check_refused(PolynomialDecay{.end_learning_rate = -1});
  check_refused(PolynomialDecay{.power = -1});
}

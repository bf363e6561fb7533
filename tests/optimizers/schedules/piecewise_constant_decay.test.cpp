#include "lockstep/optimizers/schedules/piecewise_constant_decay.hpp"

#include <doctest/doctest.h>

#include "optimizers/schedules/schedule_testing.hpp"

using lockstep::PiecewiseConstantDecay;
namespace golden = lockstep_test::golden;
using lockstep_test::check_refused;
using lockstep_test::check_schedule;

TEST_CASE("PiecewiseConstantDecay: golden values") {
  check_schedule(PiecewiseConstantDecay{.boundaries = {100, 300}, .values = {0.1, 0.01, 0.001}},
                 golden::piecewise_constant_decay);
}

TEST_CASE("PiecewiseConstantDecay: between equal boundaries is no step") {
  const PiecewiseConstantDecay schedule{.boundaries = {1, 1}, .values = {3, 2, 1}};
  CHECK(schedule(1) == 3);
  CHECK(schedule(2) == 1);
}

TEST_CASE("PiecewiseConstantDecay: options") {
  CHECK(PiecewiseConstantDecay{.boundaries = {100, 300}, .values = {0.1, 0.01, 0.001}}
            .description() ==
        "PiecewiseConstantDecay(values=0.1 until 100 then 0.01 until 300 then 0.001)");
  check_refused(PiecewiseConstantDecay{.boundaries = {}, .values = {-1}});
  check_refused(PiecewiseConstantDecay{.boundaries = {300, 299}, .values = {0.1, 0.01, 0.001}});
  CHECK_THROWS_WITH_AS((PiecewiseConstantDecay{.boundaries = {100}, .values = {0.1}}.validate()),
                       "PiecewiseConstantDecay: 1 boundaries want one value more, got 1 values",
                       lockstep::ConfigurationError);
}

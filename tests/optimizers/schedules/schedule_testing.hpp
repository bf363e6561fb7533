// What every schedule must do, checked for one schedule.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <span>

#include "golden/schedules.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/optimizers/learning_rate.hpp"

namespace lockstep_test {

/// The rates at golden::schedule_steps.
template <lockstep::LearningRateSchedule S>
void check_schedule(const S& schedule, std::span<const double> expected) {
  schedule.validate();
  REQUIRE(expected.size() == std::size(golden::schedule_steps));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(golden::schedule_steps[i]);
    CHECK(schedule(golden::schedule_steps[i]) == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

/// What validate() throws: a ConfigurationError.
template <lockstep::LearningRateSchedule S>
void check_refused(const S& schedule) {
  CHECK_THROWS_AS(schedule.validate(), lockstep::ConfigurationError);
}

}  // namespace lockstep_test

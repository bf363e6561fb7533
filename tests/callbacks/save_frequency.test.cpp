#include "lockstep/callbacks/save_frequency.hpp"

#include <doctest/doctest.h>

#include "lockstep/core/error.hpp"

namespace ls = lockstep;

TEST_CASE("SaveFrequency: at epochs, or every n steps") {
  const ls::SaveFrequency epochs, steps = 3;
  CHECK(epochs.at_epoch());
  CHECK_FALSE(epochs.at_step(3));
  CHECK_FALSE(steps.at_epoch());
  CHECK(steps.at_step(6));
  CHECK_FALSE(steps.at_step(7));
  CHECK_THROWS_AS((void)ls::SaveFrequency(-1), ls::ConfigurationError);
}

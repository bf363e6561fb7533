#include "lockstep/callbacks/frequency.hpp"
#include "lockstep/core/error.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "support/model_testing.hpp"

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

using lockstep_test::contains;
using lockstep_test::message_of;

namespace {

/// Of the first ten batches, those after which figures are due.
std::vector<std::int64_t> due(const ls::UpdateFrequency& frequency) {
  std::vector<std::int64_t> batches;
  for (std::int64_t made = 1; made <= 10; ++made)
    if (frequency.due(made)) batches.push_back(made);
  return batches;
}

}  // namespace

TEST_CASE("UpdateFrequency: at epochs alone by default, after each batch, or every so many") {
  CHECK(due({}).empty());
  CHECK(due(ls::UpdateFrequency::epoch).empty());
  CHECK(due(ls::UpdateFrequency::batch) ==
        std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  CHECK(due(3) == std::vector<std::int64_t>{3, 6, 9});
  CHECK(due(11).empty());
}

TEST_CASE("UpdateFrequency: a negative number is refused") {
  CHECK(contains(message_of<ls::ConfigurationError>([] { (void)ls::UpdateFrequency(-2); }),
                 "got -2"));
}

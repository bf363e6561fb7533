#include "lockstep/callbacks/training.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "callbacks/fake_training.hpp"

namespace ls = lockstep;

static_assert(std::is_abstract_v<ls::Training> && std::has_virtual_destructor_v<ls::Training>);

TEST_CASE("Training: what a callback is given can be replaced in a test") {
  lockstep_test::FakeTraining fake;
  ls::Training& training = fake;
  training.stop_training();
  training.set_learning_rate(2 * training.learning_rate());
  CHECK(fake.stopped);
  CHECK(fake.rate == 0.2);
}

#include "lockstep/optimizers/nadam.hpp"

#include <doctest/doctest.h>

#include <cstdint>

#include "golden/optimizers.hpp"
#include "lockstep/core/error.hpp"
#include "optimizers/optimizer_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using ls::Nadam;

TEST_CASE("Nadam: golden trajectories") {
  const auto check = [](const Nadam& optimizer, std::span<const double> expected) {
    lockstep_test::check_trajectory(optimizer, golden::keras_start, golden::keras_gradients,
                                    expected);
  };
  check(Nadam{.learning_rate = 0.01, .beta_2 = 0.9, .weight_decay = 0.1}, golden::keras_nadam);
}

TEST_CASE("Nadam: the figures of Keras's own tests") {
  lockstep_test::check_keras_step(Nadam{.learning_rate = 0.5}, {0.4686, 1.4686, 2.4686, 3.4686});
  lockstep_test::check_keras_steps(
      Nadam{.learning_rate = 0.5, .beta_1 = 0.5, .beta_2 = 0.67, .epsilon = 1e-5},
      {0.4281, -0.1738, -0.7115, -1.2335, -1.7492});
}

TEST_CASE("Nadam: the partition changes no bit") {
  lockstep_test::check_partition_independence(Nadam{});
}

TEST_CASE("Nadam: after many updates the step is still the learning rate") {
  const double start[] = {1}, gradients[] = {0.5};
  lockstep_test::Arena<double, Nadam> arena(Nadam{.beta_1 = 0, .beta_2 = 0}, start);
  for (const std::int64_t iteration : {1LL, 999LL, 1001LL, 1'000'000LL}) {
    const double before = arena.parameters()[0];
    arena.update({.iteration = iteration, .learning_rate = 0.25}, gradients);
    CHECK(before - arena.parameters()[0] == doctest::Approx(0.25).epsilon(1e-6));
  }
}

TEST_CASE("Nadam: options") {
  CHECK(Nadam{}.slots() == 2);
  CHECK(Nadam{}.description() ==
        "Nadam(learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-07, weight_decay=0)");
  Nadam{}.validate();
  CHECK_THROWS_AS(Nadam{.learning_rate = -1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Nadam{.beta_1 = 1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Nadam{.beta_2 = -0.1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Nadam{.epsilon = -1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Nadam{.weight_decay = -1}.validate(), ls::ConfigurationError);
}

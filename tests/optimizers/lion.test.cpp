#include "lockstep/optimizers/lion.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "golden/optimizers.hpp"
#include "lockstep/core/error.hpp"
#include "optimizers/optimizer_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using ls::Lion;

TEST_CASE("Lion: golden trajectories") {
  const auto check = [](const Lion& optimizer, std::span<const double> expected) {
    lockstep_test::check_trajectory(optimizer, golden::keras_start, golden::keras_gradients,
                                    expected);
  };
  check(Lion{.learning_rate = 0.01, .weight_decay = 0.1}, golden::keras_lion);
}

TEST_CASE("Lion: the figures of Keras's own tests") {
  lockstep_test::check_keras_step(Lion{.learning_rate = 0.5}, {0.5, 1.5, 2.5, 3.5});
  lockstep_test::check_keras_steps(Lion{}, {0.999, 0.998, 0.997, 0.996, 0.995});
}

TEST_CASE("Lion: the partition changes no bit") {
  lockstep_test::check_partition_independence(Lion{});
}

TEST_CASE("Lion: no step where the sum is zero, and NaN is not hidden") {
  const double start[] = {1, 1};
  const double gradients[] = {0, std::numeric_limits<double>::quiet_NaN()};
  lockstep_test::Arena<double, Lion> arena(Lion{}, start);
  arena.update({.learning_rate = 0.5}, gradients);
  CHECK(arena.parameters()[0] == 1);
  CHECK(std::isnan(arena.parameters()[1]));
}

TEST_CASE("Lion: options") {
  CHECK(Lion{}.slots() == 1);
  CHECK(Lion{}.description() ==
        "Lion(learning_rate=0.001, beta_1=0.9, beta_2=0.99, weight_decay=0)");
  Lion{}.validate();
  CHECK_THROWS_AS(Lion{.learning_rate = -1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Lion{.beta_1 = 1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Lion{.beta_2 = -0.1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Lion{.weight_decay = -1}.validate(), ls::ConfigurationError);
}

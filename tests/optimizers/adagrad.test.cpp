#include "lockstep/optimizers/adagrad.hpp"

#include <doctest/doctest.h>

#include "golden/optimizers.hpp"
#include "lockstep/core/error.hpp"
#include "optimizers/optimizer_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using ls::Adagrad;

TEST_CASE("Adagrad: golden trajectories") {
  const auto check = [](const Adagrad& optimizer, std::span<const double> expected) {
    lockstep_test::check_trajectory(optimizer, golden::keras_start, golden::keras_gradients,
                                    expected);
  };
  check(Adagrad{.learning_rate = 0.1, .weight_decay = 0.1}, golden::keras_adagrad);
}

TEST_CASE("Adagrad: the figures of Keras's own tests") {
  lockstep_test::check_keras_step(Adagrad{.learning_rate = 0.5}, {0.5233, 1.5007, 2.5005, 3.5061});
  lockstep_test::check_keras_steps(
      Adagrad{.learning_rate = 0.2, .initial_accumulator_value = 0.3, .epsilon = 1e-6},
      {0.9963, 0.9604, 0.9251, 0.8903, 0.856});
}

TEST_CASE("Adagrad: the partition changes no bit") {
  lockstep_test::check_partition_independence(Adagrad{});
}

TEST_CASE("Adagrad: options") {
  CHECK(Adagrad{}.slots() == 1);
  CHECK(
      Adagrad{}.description() ==
      "Adagrad(learning_rate=0.001, initial_accumulator_value=0.1, epsilon=1e-07, weight_decay=0)");
  Adagrad{}.validate();
  CHECK_THROWS_AS(Adagrad{.learning_rate = -1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Adagrad{.initial_accumulator_value = -1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Adagrad{.epsilon = -1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Adagrad{.weight_decay = -1}.validate(), ls::ConfigurationError);
}

#include "lockstep/optimizers/rmsprop.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "golden/optimizers.hpp"
#include "lockstep/core/error.hpp"
#include "optimizers/optimizer_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using ls::Adadelta;
using ls::Adagrad;
using ls::RMSprop;

TEST_CASE("RMSprop: golden trajectories") {
  const auto check = [](const RMSprop& optimizer, std::span<const double> expected) {
    lockstep_test::check_trajectory(optimizer, golden::keras_start, golden::keras_gradients,
                                    expected);
  };
  check(RMSprop{.learning_rate = 0.01}, golden::keras_rmsprop);
  check(RMSprop{.learning_rate = 0.01, .centered = true, .weight_decay = 0.1},
        golden::keras_rmsprop_centered);
  check(RMSprop{.learning_rate = 0.01, .rho = 0.8, .momentum = 0.7, .epsilon = 0.1},
        golden::keras_rmsprop_momentum);
  check(RMSprop{.learning_rate = 0.01, .momentum = 0.7, .centered = true},
        golden::keras_rmsprop_all);
}

TEST_CASE("RMSprop: the figures of Keras's own tests") {
  lockstep_test::check_keras_step(RMSprop{.learning_rate = 0.5}, {-0.5811, 0.4189, 1.4189, 2.4189});
  lockstep_test::check_keras_steps(RMSprop{.centered = true},
                                   {0.9967, 0.9933, 0.9908, 0.9885, 0.9864});
}

TEST_CASE("RMSprop: the partition changes no bit") {
  lockstep_test::check_partition_independence(RMSprop{});
  lockstep_test::check_partition_independence(RMSprop{.momentum = 0.9});
  lockstep_test::check_partition_independence(RMSprop{.centered = true, .weight_decay = 0.1});
  lockstep_test::check_partition_independence(RMSprop{.momentum = 0.9, .centered = true});
}

TEST_CASE("RMSprop: a variance that rounding makes negative counts as zero") {
  const double start[] = {1}, gradients[] = {12345.678};
  lockstep_test::Arena<float, RMSprop> arena(RMSprop{.rho = 0.5, .centered = true}, start);
  for (std::int64_t step = 1; step <= 100; ++step)
    arena.update({.iteration = step, .learning_rate = 1e-9},
                 std::vector<float>{static_cast<float>(gradients[0])});
  CHECK(std::isfinite(arena.parameters()[0]));
}

TEST_CASE("RMSprop: options") {
  CHECK(RMSprop{}.slots() == 1);
  CHECK(RMSprop{.momentum = 0.9}.slots() == 2);
  CHECK(RMSprop{.centered = true}.slots() == 2);
  CHECK(RMSprop{.momentum = 0.9, .centered = true}.slots() == 3);
  CHECK(RMSprop{}.description() ==
        "RMSprop(learning_rate=0.001, rho=0.9, momentum=0, epsilon=1e-07, centered=false, "
        "weight_decay=0)");
  RMSprop{}.validate();
  CHECK_THROWS_AS(RMSprop{.learning_rate = -1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(RMSprop{.rho = 1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(RMSprop{.momentum = 1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(RMSprop{.epsilon = -1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(RMSprop{.weight_decay = -1}.validate(), ls::ConfigurationError);
}

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

TEST_CASE("Adadelta: golden trajectories") {
  const auto check = [](const Adadelta& optimizer, std::span<const double> expected) {
    lockstep_test::check_trajectory(optimizer, golden::keras_start, golden::keras_gradients,
                                    expected);
  };
  check(Adadelta{.learning_rate = 1, .epsilon = 0.01, .weight_decay = 0.1}, golden::keras_adadelta);
}

TEST_CASE("Adadelta: the figures of Keras's own tests") {
  lockstep_test::check_keras_step(Adadelta{.learning_rate = 0.5}, {0.9993, 1.9993, 2.9993, 3.9993});
  lockstep_test::check_keras_steps(Adadelta{.learning_rate = 1, .rho = 0.8, .epsilon = 1e-6},
                                   {0.9978, 0.9947, 0.9915, 0.9882, 0.9849});
}

TEST_CASE("Adadelta: the partition changes no bit") {
  lockstep_test::check_partition_independence(Adadelta{});
}

TEST_CASE("Adadelta: options") {
  CHECK(Adadelta{}.slots() == 2);
  CHECK(Adadelta{}.description() ==
        "Adadelta(learning_rate=0.001, rho=0.95, epsilon=1e-07, weight_decay=0)");
  Adadelta{}.validate();
  CHECK_THROWS_AS(Adadelta{.learning_rate = -1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Adadelta{.rho = 1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Adadelta{.epsilon = -1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Adadelta{.weight_decay = -1}.validate(), ls::ConfigurationError);
}

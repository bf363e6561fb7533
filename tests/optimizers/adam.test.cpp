#include "lockstep/optimizers/adam.hpp"

#include <doctest/doctest.h>

#include "golden/optimizers.hpp"
#include "lockstep/core/error.hpp"
#include "optimizers/optimizer_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using ls::Adam;

TEST_CASE("Adam: golden trajectories") {
  const auto check = [](const Adam& adam, std::span<const double> expected) {
    lockstep_test::check_trajectory(adam, golden::start, golden::gradients, expected);
  };
  check(Adam{.learning_rate = 0.01, .beta_1 = 0.8, .beta_2 = 0.99, .epsilon = 0}, golden::adam);
  check(
      Adam{.learning_rate = 0.01, .beta_1 = 0.8, .beta_2 = 0.99, .epsilon = 0, .weight_decay = 0.1},
      golden::adam_decay);
  check(Adam{.learning_rate = 0.01,
             .beta_1 = 0.8,
             .beta_2 = 0.99,
             .epsilon = 0.05,
             .weight_decay = 0.1},
        golden::adam_epsilon);
  lockstep_test::check_trajectory(Adam{.learning_rate = 0.01,
                                       .beta_1 = 0.8,
                                       .beta_2 = 0.5,
                                       .amsgrad = true,
                                       .weight_decay = 0.1},
                                  golden::keras_start, golden::keras_gradients,
                                  golden::keras_adam_amsgrad);
}

TEST_CASE("Adam: the partition changes no bit") {
  lockstep_test::check_partition_independence(Adam{});
  lockstep_test::check_partition_independence(Adam{.weight_decay = 0.004});
  lockstep_test::check_partition_independence(Adam{.amsgrad = true});
}

TEST_CASE("Adam: the figures of Keras's own tests") {
  lockstep_test::check_keras_step(Adam{.learning_rate = 0.5}, {0.5, 1.5, 2.5, 3.5});
  lockstep_test::check_keras_steps(Adam{.amsgrad = true}, {0.999, 0.9982, 0.9974, 0.9965, 0.9955});
}

TEST_CASE("Adam: the first step has the length of the learning rate") {
  const double start[] = {1, 1}, gradients[] = {1e-3, -1e3};
  lockstep_test::Arena<double, Adam> arena(Adam{}, start);
  arena.update({.learning_rate = 0.001}, gradients);
  CHECK(arena.parameters()[0] == doctest::Approx(0.999).epsilon(1e-5));
  CHECK(arena.parameters()[1] == doctest::Approx(1.001).epsilon(1e-5));
}

TEST_CASE("Adam: options") {
  CHECK(Adam{}.slots() == 2);
  CHECK(Adam{.amsgrad = true}.slots() == 3);
  CHECK(Adam{.amsgrad = true}.description() ==
        "Adam(learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-07, weight_decay=0, "
        "amsgrad=true)");
  CHECK(Adam{}.description() ==
        "Adam(learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-07, weight_decay=0)");
  Adam{}.validate();
  CHECK_THROWS_WITH_AS(Adam{.beta_2 = 1}.validate(),
                       "Adam: beta_2 is 1; expected a number in [0, 1)", ls::ConfigurationError);
  CHECK_THROWS_AS(Adam{.learning_rate = -1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Adam{.beta_1 = -0.1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Adam{.epsilon = -1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Adam{.weight_decay = -1}.validate(), ls::ConfigurationError);
}

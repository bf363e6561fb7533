#include "lockstep/optimizers/adam.hpp"

#include <doctest/doctest.h>

#include <cstdint>

#include "golden/optimizers.hpp"
#include "lockstep/core/error.hpp"
#include "optimizers/optimizer_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using ls::Adam;
using ls::Adamax;
using ls::AdamW;
using ls::Nadam;

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

TEST_CASE("AdamW: golden trajectories") {
  const auto check = [](const AdamW& adamw, std::span<const double> expected) {
    lockstep_test::check_trajectory(adamw, golden::keras_start, golden::keras_gradients, expected);
  };
  check(AdamW{.learning_rate = 0.01}, golden::keras_adamw);
  check(AdamW{.learning_rate = 0.01,
              .weight_decay = 0.1,
              .beta_1 = 0.8,
              .beta_2 = 0.99,
              .epsilon = 0.05},
        golden::keras_adamw_options);
}

TEST_CASE("AdamW: the figures of Keras's own test") {
  lockstep_test::check_keras_step(AdamW{.learning_rate = 0.5}, {0.4980, 1.4960, 2.494, 3.492});
}

TEST_CASE("AdamW: the partition changes no bit") {
  lockstep_test::check_partition_independence(AdamW{});
}

TEST_CASE("AdamW: parameters that are excluded do not decay") {
  const double start[] = {2}, gradients[] = {0};
  lockstep_test::Arena<double, AdamW> arena(AdamW{.weight_decay = 0.5}, start);
  arena.update({.learning_rate = 0.5, .decays = false}, gradients);
  CHECK(arena.parameters()[0] == 2);
  arena.update({.iteration = 2, .learning_rate = 0.5}, gradients);
  CHECK(arena.parameters()[0] == 1.5);
}

TEST_CASE("AdamW: options") {
  CHECK(AdamW{}.slots() == 2);
  CHECK(AdamW{.amsgrad = true}.slots() == 3);
  CHECK(AdamW{}.description() ==
        "AdamW(learning_rate=0.001, weight_decay=0.004, beta_1=0.9, beta_2=0.999, epsilon=1e-07)");
  AdamW{}.validate();
  CHECK_THROWS_WITH_AS(AdamW{.beta_2 = 1}.validate(),
                       "AdamW: beta_2 is 1; expected a number in [0, 1)", ls::ConfigurationError);
  CHECK_THROWS_AS(AdamW{.weight_decay = -1}.validate(), ls::ConfigurationError);
}

TEST_CASE("Adamax: golden trajectories") {
  const auto check = [](const Adamax& optimizer, std::span<const double> expected) {
    lockstep_test::check_trajectory(optimizer, golden::keras_start, golden::keras_gradients,
                                    expected);
  };
  check(Adamax{.learning_rate = 0.01, .beta_2 = 0.9, .weight_decay = 0.1}, golden::keras_adamax);
}

TEST_CASE("Adamax: the figures of Keras's own tests") {
  lockstep_test::check_keras_step(Adamax{.learning_rate = 0.5}, {0.5, 1.5, 2.5, 3.5});
  lockstep_test::check_keras_steps(
      Adamax{.learning_rate = 0.2, .beta_1 = 0.85, .beta_2 = 0.95, .epsilon = 1e-6},
      {0.8, 0.6827, 0.5333, 0.368, 0.1933});
}

TEST_CASE("Adamax: the partition changes no bit") {
  lockstep_test::check_partition_independence(Adamax{.weight_decay = 0.1});
}

TEST_CASE("Adamax: options") {
  CHECK(Adamax{}.slots() == 2);
  CHECK(Adamax{}.description() ==
        "Adamax(learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-07, weight_decay=0)");
  Adamax{}.validate();
  CHECK_THROWS_AS(Adamax{.learning_rate = -1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Adamax{.beta_1 = 1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Adamax{.beta_2 = -0.1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Adamax{.epsilon = -1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Adamax{.weight_decay = -1}.validate(), ls::ConfigurationError);
}

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

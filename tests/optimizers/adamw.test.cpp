#include "lockstep/optimizers/adamw.hpp"

#include <doctest/doctest.h>

#include "golden/optimizers.hpp"
#include "lockstep/core/error.hpp"
#include "optimizers/optimizer_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using ls::AdamW;

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

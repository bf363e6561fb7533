#include "lockstep/optimizers/adamax.hpp"

#include <doctest/doctest.h>

#include "golden/optimizers.hpp"
#include "lockstep/core/error.hpp"
#include "optimizers/optimizer_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using ls::Adamax;

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

#include "lockstep/optimizers/adadelta.hpp"

#include <doctest/doctest.h>

#include "golden/optimizers.hpp"
#include "lockstep/core/error.hpp"
#include "optimizers/optimizer_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using ls::Adadelta;

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

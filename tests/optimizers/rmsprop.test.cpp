#include "lockstep/optimizers/rmsprop.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "golden/optimizers.hpp"
#include "lockstep/core/error.hpp"
#include "optimizers/optimizer_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
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

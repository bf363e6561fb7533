#include "lockstep/optimizers/sgd.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "golden/optimizers.hpp"
#include "lockstep/core/error.hpp"
#include "optimizers/optimizer_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using lockstep_test::check_partition_independence;
using lockstep_test::check_trajectory;
using ls::SGD;
constexpr auto pytorch = ls::MomentumForm::pytorch;

TEST_CASE("SGD: golden trajectories") {
  const auto check = [](const SGD& sgd, std::span<const double> expected) {
    check_trajectory(sgd, golden::start, golden::gradients, expected);
  };
  check(SGD{.learning_rate = 0.05}, golden::sgd);
  check(SGD{.learning_rate = 0.05, .momentum = 0.9}, golden::sgd_momentum);
  check(SGD{.learning_rate = 0.05, .momentum = 0.9, .nesterov = true}, golden::sgd_nesterov);
  check(SGD{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.1}, golden::sgd_decay);
  check(SGD{.learning_rate = 0.05, .nesterov = true}, golden::sgd);
}

TEST_CASE("SGD: MomentumForm::pytorch has a new learning rate in force at once, as PyTorch") {
  const auto check = [](const SGD& sgd, std::span<const double> expected, double tolerance,
                        auto zero) {
    using T = decltype(zero);
    lockstep_test::Arena<T, SGD> arena(sgd, golden::start);
    for (std::size_t step = 0; step < golden::steps; ++step) {
      const double* const g = golden::gradients + step * golden::size;
      arena.update({.iteration = static_cast<std::int64_t>(step) + 1,
                    .learning_rate = golden::rates[step],
                    .previous_learning_rate = step > 0 ? golden::rates[step - 1] : 0},
                   std::vector<T>(g, g + golden::size));
    }
    for (std::size_t i = 0; i < golden::size; ++i)
      CHECK(static_cast<double>(arena.parameters()[i]) ==
            doctest::Approx(expected[i]).epsilon(tolerance));
  };
  check({.momentum = 0.9, .momentum_form = pytorch}, golden::sgd_rates, 1e-12, 0.0);
  check({.momentum = 0.9, .momentum_form = pytorch}, golden::sgd_rates, 1e-5, 0.0F);
  check({.momentum = 0.9, .nesterov = true, .momentum_form = pytorch}, golden::sgd_nesterov_rates,
        1e-12, 0.0);
}

TEST_CASE("UpdateContext: what momentum keeps of a slot") {
  const auto kept = [](double rate, double previous, ls::MomentumForm form = pytorch) {
    return ls::UpdateContext{.learning_rate = rate, .previous_learning_rate = previous}
        .kept_momentum(0.9, form);
  };
  CHECK(kept(0.1, 0) == 0.9);
  CHECK(kept(0.1, 0.1) == 0.9);
  CHECK(kept(0.25, 1) == 0.9 * 0.25);
  CHECK(kept(0, 1) == 0);
  CHECK(kept(1, 1e-300) == 0.9 * 1e30);
  CHECK(kept(0.25, 1, ls::MomentumForm::keras) == 0.9);
}

TEST_CASE("SGD: the partition changes no bit") {
  check_partition_independence(SGD{});
  check_partition_independence(SGD{.weight_decay = 0.01});
  check_partition_independence(SGD{.momentum = 0.9});
  check_partition_independence(SGD{.momentum = 0.9, .nesterov = true, .weight_decay = 0.01});
}

TEST_CASE("SGD: the learning rate in force is the context's") {
  const double start[] = {1};
  lockstep_test::Arena<double, SGD> arena(SGD{.learning_rate = 100}, start);
  const double gradients[] = {2};
  arena.update({.learning_rate = 0.25}, gradients);
  CHECK(arena.parameters()[0] == 0.5);
}

TEST_CASE("SGD: options") {
  CHECK(SGD{.learning_rate = 0.001f}.slots() == 0);
  CHECK(SGD{.momentum = 0.9}.slots() == 1);
  CHECK(SGD{.momentum = 0.9}.description() ==
        "SGD(learning_rate=0.01, momentum=0.9, nesterov=false, weight_decay=0, "
        "momentum_form=keras)");
  CHECK(SGD{.momentum_form = pytorch}.description() ==
        "SGD(learning_rate=0.01, momentum=0, nesterov=false, weight_decay=0)");

  SGD{}.validate();
  SGD{.learning_rate = 0, .momentum = 0.999, .nesterov = true, .weight_decay = 0.1}.validate();
  CHECK_THROWS_WITH_AS(SGD{.momentum = 1}.validate(),
                       "SGD: momentum is 1; expected a number in [0, 1)", ls::ConfigurationError);
  CHECK_THROWS_WITH_AS(SGD{.learning_rate = -0.5}.validate(),
                       "SGD: learning_rate is -0.5; expected a finite number of at least 0",
                       ls::ConfigurationError);
  CHECK_THROWS_AS(SGD{.momentum = -0.1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(SGD{.weight_decay = -1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(SGD{.learning_rate = std::numeric_limits<double>::quiet_NaN()}.validate(),
                  ls::ConfigurationError);
  CHECK_THROWS_AS(SGD{.learning_rate = std::numeric_limits<double>::infinity()}.validate(),
                  ls::ConfigurationError);
}

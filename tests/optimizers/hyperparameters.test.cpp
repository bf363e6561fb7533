#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/schedules.hpp"
#include "lockstep/optimizers/sgd.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace ls = lockstep;

TEST_CASE("hyper-parameters: what is refused, and how it is said") {
  using ls::detail::require_decay_rate, ls::detail::require_not_negative;
  require_not_negative("SGD", "learning_rate", 0);
  require_decay_rate("SGD", "momentum", 0.999);
  CHECK_THROWS_WITH_AS(require_decay_rate("SGD", "momentum", 1.5),
                       "SGD: momentum is 1.5; expected a number in [0, 1)", ls::ConfigurationError);
  CHECK_THROWS_AS(require_decay_rate("SGD", "momentum", 1), ls::ConfigurationError);
  CHECK_THROWS_AS(require_not_negative("SGD", "learning_rate", -0.1), ls::ConfigurationError);
  CHECK_THROWS_AS(
      require_not_negative("SGD", "learning_rate", std::numeric_limits<double>::infinity()),
      ls::ConfigurationError);
  CHECK_THROWS_AS(
      require_not_negative("SGD", "learning_rate", std::numeric_limits<double>::quiet_NaN()),
      ls::ConfigurationError);
}

using ls::LearningRate;

namespace {

struct Halves {
  double operator()(std::int64_t step) const { return 1.0 / static_cast<double>(step + 1); }
};
static_assert(ls::LearningRateSchedule<Halves>);
static_assert(ls::LearningRateSchedule<ls::CosineDecay>);

// Near misses.
struct WithoutStep {
  double operator()() const;
};
struct GivesText {
  std::string operator()(std::int64_t) const;
};
static_assert(!ls::LearningRateSchedule<WithoutStep>);
static_assert(!ls::LearningRateSchedule<GivesText>);
static_assert(!ls::LearningRateSchedule<double>);
static_assert(!ls::LearningRateSchedule<LearningRate>);

}  // namespace

TEST_CASE("LearningRate: a number") {
  const LearningRate rate = 0.25F;
  CHECK_FALSE(rate.is_scheduled());
  CHECK(rate == 0.25);
  CHECK(rate(1000) == 0.25);
  CHECK(rate.description() == "0.25");
  CHECK(LearningRate(1).description() == "1");
}

TEST_CASE("LearningRate: a schedule") {
  const ls::Adam adam{.learning_rate =
                          ls::CosineDecay{.initial_learning_rate = 0.5, .decay_steps = 10}};
  CHECK(adam.learning_rate.is_scheduled());
  CHECK(adam.learning_rate == 0.5);
  CHECK(adam.learning_rate(5) == 0.25);
  CHECK(adam.description() ==
        "Adam(learning_rate=CosineDecay(initial_learning_rate=0.5, decay_steps=10, alpha=0, "
        "warmup_target=none, "
        "warmup_steps=0), beta_1=0.9, beta_2=0.999, epsilon=1e-07, weight_decay=0)");
  adam.validate();
  const LearningRate copy = adam.learning_rate;
  CHECK(copy(5) == 0.25);
  CHECK_THROWS_AS(LearningRate(ls::CosineDecay{.decay_steps = 0}), ls::ConfigurationError);
}

TEST_CASE("LearningRate: a user's own function") {
  const ls::SGD sgd{.learning_rate = [](std::int64_t step) { return step < 100 ? 0.5 : 0.25; }};
  CHECK(sgd.learning_rate(99) == 0.5);
  CHECK(sgd.learning_rate(100) == 0.25);
  CHECK(sgd.learning_rate.description() == "function(0=0.5, 100=0.25, 10000=0.25)");
  CHECK(LearningRate(Halves{})(3) == 0.25);
}

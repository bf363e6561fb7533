#include "lockstep/optimizers/hyperparameters.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "lockstep/core/error.hpp"

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

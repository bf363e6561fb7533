// A power of what is left of the steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/describe.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/learning_rate.hpp"
#include "lockstep/optimizers/portable_functions.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Keras's PolynomialDecay: from initial_learning_rate to end_learning_rate in decay_steps updates,
/// (initial - end) * (1 - step / decay_steps)^power + end; a line for power 1. Then it stays there
/// or, with cycle, goes on from a higher rate to the next multiple of decay_steps.
struct PolynomialDecay {
  double initial_learning_rate = 0.001;
  std::int64_t decay_steps = 1000;
  double end_learning_rate = 0.0001;
  double power = 1;
  bool cycle = false;

  static constexpr std::string_view name = "PolynomialDecay";

  [[nodiscard]] std::string description() const {
    return describe(name, {{"initial_learning_rate", initial_learning_rate},
                           {"decay_steps", decay_steps},
                           {"end_learning_rate", end_learning_rate},
                           {"power", power},
                           {"cycle", cycle}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    detail::require_not_negative(name, "initial_learning_rate", initial_learning_rate);
    detail::require_count(name, "decay_steps", decay_steps, 1);
    detail::require_not_negative(name, "end_learning_rate", end_learning_rate);
    detail::require_not_negative(name, "power", power);
  }

  [[nodiscard]] double operator()(std::int64_t step) const {
    const auto one = static_cast<double>(decay_steps);
    const double all =
        cycle ? one * std::max(1.0, std::ceil(static_cast<double>(step) / one)) : one;
    const double left = 1 - std::min(static_cast<double>(step), all) / all;
    return (initial_learning_rate - end_learning_rate) * portable::power(left, power) +
           end_learning_rate;
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI

// A rate that is multiplied again and again.
#pragma once

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

/// Keras's ExponentialDecay: initial_learning_rate * decay_rate^(step / decay_steps).
struct ExponentialDecay {
  double initial_learning_rate = 0.001;
  std::int64_t decay_steps = 1000;
  double decay_rate = 0.96;
  bool staircase = false;  ///< only whole multiples of decay_steps count

  static constexpr std::string_view name = "ExponentialDecay";

  [[nodiscard]] std::string description() const {
    return describe(name, {{"initial_learning_rate", initial_learning_rate},
                           {"decay_steps", decay_steps},
                           {"decay_rate", decay_rate},
                           {"staircase", staircase}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    detail::require_not_negative(name, "initial_learning_rate", initial_learning_rate);
    detail::require_count(name, "decay_steps", decay_steps, 1);
    detail::require_not_negative(name, "decay_rate", decay_rate);
  }

  [[nodiscard]] double operator()(std::int64_t step) const {
    const double times = static_cast<double>(step) / static_cast<double>(decay_steps);
    return initial_learning_rate *
           portable::power(decay_rate, staircase ? std::floor(times) : times);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI

// Cosine decay that begins again and again.
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

/// Keras's CosineDecayRestarts: Loshchilov, Hutter, "SGDR: stochastic gradient descent with warm
/// restarts", ICLR 2017. Period k has first_decay_steps * t_mul^k updates, and begins at
/// initial_learning_rate * m_mul^k.
struct CosineDecayRestarts {
  double initial_learning_rate = 0.001;
  std::int64_t first_decay_steps = 1000;
  double t_mul = 2;  ///< at least 1
  double m_mul = 1;
  double alpha = 0;  ///< the lowest rate, as a part of initial_learning_rate

  static constexpr std::string_view name = "CosineDecayRestarts";

  [[nodiscard]] std::string description() const {
    return describe(name, {{"initial_learning_rate", initial_learning_rate},
                           {"first_decay_steps", first_decay_steps},
                           {"t_mul", t_mul},
                           {"m_mul", m_mul},
                           {"alpha", alpha}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    detail::require_not_negative(name, "initial_learning_rate", initial_learning_rate);
    detail::require_count(name, "first_decay_steps", first_decay_steps, 1);
    detail::require_option(t_mul >= 1 && t_mul <= 1e300, name, "t_mul", t_mul,
                           "a finite number of at least 1");
    detail::require_not_negative(name, "m_mul", m_mul);
    detail::require_not_negative(name, "alpha", alpha);
  }

  [[nodiscard]] double operator()(std::int64_t step) const {
    double left = static_cast<double>(step), period = static_cast<double>(first_decay_steps),
           height = 1;
    if (t_mul == 1) {
      height = portable::power(m_mul, std::floor(left / period));
      left -= std::floor(left / period) * period;
    }
    for (; left >= period; height *= m_mul) {
      left -= period;
      period *= t_mul;
    }
    return initial_learning_rate *
           ((1 - alpha) * 0.5 * height * (1 + portable::cos_pi(left / period)) + alpha);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI

// Half a wave of the cosine, after a warm-up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/describe.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/learning_rate.hpp"
#include "lockstep/optimizers/portable_functions.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Keras's CosineDecay: Loshchilov, Hutter, "SGDR: stochastic gradient descent with warm restarts",
/// ICLR 2017. With a warmup_target, a line from initial_learning_rate to it in warmup_steps
/// updates; then, or at once from initial_learning_rate, in decay_steps updates down to alpha times
/// as much, and there it stays.
struct CosineDecay {
  double initial_learning_rate = 0.001;
  std::int64_t decay_steps = 1000;  ///< those of the warm-up come before
  double alpha = 0;                 ///< the last rate, as a part of the highest
  std::optional<double> warmup_target = std::nullopt;
  std::int64_t warmup_steps = 0;

  static constexpr std::string_view name = "CosineDecay";

  [[nodiscard]] std::string description() const {
    return describe(name, {{"initial_learning_rate", initial_learning_rate},
                           {"decay_steps", decay_steps},
                           {"alpha", alpha},
                           {"warmup_target", warmup_target ? number_text(*warmup_target) : "none"},
                           {"warmup_steps", warmup_steps}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    detail::require_not_negative(name, "initial_learning_rate", initial_learning_rate);
    detail::require_not_negative(name, "warmup_target", warmup_target.value_or(0));
    detail::require_count(name, "decay_steps", decay_steps, 1);
    detail::require_count(name, "warmup_steps", warmup_steps, 0);
    detail::require_not_negative(name, "alpha", alpha);
    if (warmup_steps > 0 && !warmup_target)
      throw ConfigurationError(
          "CosineDecay: warmup_steps are given, but no warmup_target; set it to the rate after the "
          "warm-up");
  }

  [[nodiscard]] double operator()(std::int64_t step) const {
    const std::int64_t warmup = warmup_target ? warmup_steps : 0;
    const double highest = warmup_target.value_or(initial_learning_rate);
    if (step < warmup)
      return initial_learning_rate + (highest - initial_learning_rate) *
                                         (static_cast<double>(step) / static_cast<double>(warmup));
    const double done = static_cast<double>(std::min(step - warmup, decay_steps)) /
                        static_cast<double>(decay_steps);
    return highest * ((1 - alpha) * 0.5 * (1 + portable::cos_pi(done)) + alpha);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI

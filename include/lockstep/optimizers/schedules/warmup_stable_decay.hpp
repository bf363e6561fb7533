// Warm-up, a constant rate, and a fast decay at the end.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/describe.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/learning_rate.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// "wsd" of llm.c: Haegele et al., "Scaling laws and compute-optimal training beyond fixed training
/// durations", 2024. A line up to learning_rate at the last of warmup_steps updates; then that
/// rate; in the last decay_fraction of steps down to final_fraction of it, like 1 - sqrt.
struct WarmupStableDecay {
  double learning_rate = 0.001;
  std::int64_t steps = 1000;  ///< of the whole training
  std::int64_t warmup_steps = 0;
  double decay_fraction = 0.2;  ///< of steps
  double final_fraction = 0;    ///< of learning_rate

  static constexpr std::string_view name = "WarmupStableDecay";

  [[nodiscard]] std::string description() const {
    return describe(name, {{"learning_rate", learning_rate},
                           {"steps", steps},
                           {"warmup_steps", warmup_steps},
                           {"decay_fraction", decay_fraction},
                           {"final_fraction", final_fraction}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    detail::require_not_negative(name, "learning_rate", learning_rate);
    detail::require_count(name, "steps", steps, 1);
    detail::require_count(name, "warmup_steps", warmup_steps, 0);
    detail::require_option(decay_fraction >= 0 && decay_fraction <= 1, name, "decay_fraction",
                           decay_fraction, "a number in [0, 1]");
    detail::require_not_negative(name, "final_fraction", final_fraction);
  }

  [[nodiscard]] double operator()(std::int64_t step) const {
    if (step < warmup_steps)
      return learning_rate * (static_cast<double>(step + 1) / static_cast<double>(warmup_steps));
    const auto first = static_cast<std::int64_t>((1 - decay_fraction) * static_cast<double>(steps));
    if (step < first) return learning_rate;
    if (step >= steps) return learning_rate * final_fraction;
    const double done = static_cast<double>(step - first) / static_cast<double>(steps - first);
    return learning_rate * (final_fraction + (1 - final_fraction) * (1 - std::sqrt(done)));
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI

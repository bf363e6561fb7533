// Learning rates that depend on the step: Keras's decays, and llm.c's.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/portable_functions.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

// Shared by ExponentialDecay and InverseTimeDecay, which have the same options.

template <class Decay>
[[nodiscard]] std::string describe_decay(const Decay& decay) {
  return describe(Decay::name, {{"initial_learning_rate", decay.initial_learning_rate},
                                {"decay_steps", decay.decay_steps},
                                {"decay_rate", decay.decay_rate},
                                {"staircase", decay.staircase}});
}

template <class Decay>
void check_decay(const Decay& decay) {
  require_not_negative(Decay::name, "initial_learning_rate", decay.initial_learning_rate);
  require_count(Decay::name, "decay_steps", decay.decay_steps, 1);
  require_not_negative(Decay::name, "decay_rate", decay.decay_rate);
}

template <class Decay>
[[nodiscard]] double decays(const Decay& decay, std::int64_t step) {
  const double times = static_cast<double>(step) / static_cast<double>(decay.decay_steps);
  return decay.staircase ? std::floor(times) : times;
}

}  // namespace detail

/// Keras's ExponentialDecay: initial_learning_rate * decay_rate^(step / decay_steps).
/// Use: `ExponentialDecay{.initial_learning_rate = 0.1, .decay_steps = 1000, .decay_rate = 0.96}`.
struct ExponentialDecay {
  double initial_learning_rate = 0.001;
  std::int64_t decay_steps = 1000;
  double decay_rate = 0.96;
  bool staircase = false;  ///< only whole multiples of decay_steps count

  static constexpr std::string_view name = "ExponentialDecay";

  [[nodiscard]] std::string description() const { return detail::describe_decay(*this); }
  /// Throws ConfigurationError.
  void validate() const { detail::check_decay(*this); }

  [[nodiscard]] double operator()(std::int64_t step) const {
    return initial_learning_rate * portable::power(decay_rate, detail::decays(*this, step));
  }
};

/// Keras's InverseTimeDecay: initial_learning_rate / (1 + decay_rate * step / decay_steps).
/// Use: `InverseTimeDecay{.initial_learning_rate = 0.1, .decay_steps = 1000, .decay_rate = 0.5}`.
struct InverseTimeDecay {
  double initial_learning_rate = 0.001;
  std::int64_t decay_steps = 1000;
  double decay_rate = 0.5;
  bool staircase = false;  ///< only whole multiples of decay_steps count

  static constexpr std::string_view name = "InverseTimeDecay";

  [[nodiscard]] std::string description() const { return detail::describe_decay(*this); }
  /// Throws ConfigurationError.
  void validate() const { detail::check_decay(*this); }

  [[nodiscard]] double operator()(std::int64_t step) const {
    return initial_learning_rate / (1 + decay_rate * detail::decays(*this, step));
  }
};

/// Keras's PolynomialDecay: from initial_learning_rate to end_learning_rate in decay_steps updates,
/// (initial - end) * (1 - step / decay_steps)^power + end; a line for power 1. Then it stays there
/// or, with cycle, goes on from a higher rate to the next multiple of decay_steps.
/// Use: `PolynomialDecay{.initial_learning_rate = 0.1, .decay_steps = 1000}`.
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

/// Keras's PiecewiseConstantDecay: values[0] up to and including step boundaries[0], then values[1]
/// up to and including boundaries[1], and so on. Steps count updates, from 0.
/// Use: `PiecewiseConstantDecay{.boundaries = {1000, 2000}, .values = {0.1, 0.01, 0.001}}`.
struct PiecewiseConstantDecay {
  std::vector<std::int64_t> boundaries = {};  ///< not falling
  std::vector<double> values = {};            ///< one more than boundaries

  static constexpr std::string_view name = "PiecewiseConstantDecay";

  [[nodiscard]] std::string description() const;

  /// Throws ConfigurationError.
  void validate() const;

  [[nodiscard]] double operator()(std::int64_t step) const;
};

/// Keras's CosineDecay: Loshchilov, Hutter, "SGDR: stochastic gradient descent with warm restarts",
/// ICLR 2017. With a warmup_target, a line from initial_learning_rate to it in warmup_steps
/// updates; then, or at once from initial_learning_rate, in decay_steps updates down to alpha times
/// as much, and there it stays.
/// Use: `CosineDecay{.initial_learning_rate = 0, .decay_steps = 1000, .warmup_target = 0.01,
/// .warmup_steps = 100}`.
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

/// Keras's CosineDecayRestarts: Loshchilov, Hutter, "SGDR: stochastic gradient descent with warm
/// restarts", ICLR 2017. Period k has first_decay_steps * t_mul^k updates, and begins at
/// initial_learning_rate * m_mul^k.
/// Use: `CosineDecayRestarts{.initial_learning_rate = 0.01, .first_decay_steps = 1000}`.
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

/// "wsd" of llm.c: Haegele et al., "Scaling laws and compute-optimal training beyond fixed training
/// durations", 2024. A line up to learning_rate at the last of warmup_steps updates; then that
/// rate; in the last decay_fraction of steps down to final_fraction of it, like 1 - sqrt.
/// Use: `WarmupStableDecay{}`. Keras: none.
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

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/optimizers/schedules.ipp"
#endif

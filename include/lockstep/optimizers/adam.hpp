// Adam.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/describe.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Adam: Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015, in the form that
/// comes before its section 2.1 and that Keras uses (epsilon is added to the root of the
/// uncorrected second moment). With g the mean gradient, t the iteration, and m and v slots:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first (AdamW)
///   m += (1 - beta_1) * (g - m);  v += (1 - beta_2) * (g * g - v)
///   w -= learning_rate * sqrt(1 - beta_2^t) / (1 - beta_1^t) * m / (sqrt(v) + epsilon)
struct Adam {
  double learning_rate = 0.001;
  double beta_1 = 0.9;    ///< in [0, 1)
  double beta_2 = 0.999;  ///< in [0, 1)
  double epsilon = 1e-7;
  double weight_decay = 0;

  static constexpr std::string_view name = "Adam";

  [[nodiscard]] std::string description() const {
    return describe(name, {{"learning_rate", learning_rate},
                           {"beta_1", beta_1},
                           {"beta_2", beta_2},
                           {"epsilon", epsilon},
                           {"weight_decay", weight_decay}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    detail::require_not_negative(name, "learning_rate", learning_rate);
    detail::require_decay_rate(name, "beta_1", beta_1);
    detail::require_decay_rate(name, "beta_2", beta_2);
    detail::require_not_negative(name, "epsilon", epsilon);
    detail::require_not_negative(name, "weight_decay", weight_decay);
  }

  [[nodiscard]] std::size_t slots() const { return 2; }

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const {
    const double correction = std::sqrt(1 - power(beta_2, context.iteration)) / (1 - power(beta_1, context.iteration));
    const T rate = static_cast<T>(context.learning_rate * correction);
    const T keep = static_cast<T>(1 - context.learning_rate * weight_decay);
    const T scale = static_cast<T>(context.gradient_scale);
    const T new_m = static_cast<T>(1 - beta_1), new_v = static_cast<T>(1 - beta_2), eps = static_cast<T>(epsilon);
    const auto step = [=](auto& w, auto& m, auto& v, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
      const auto g = scale * gradient;
      m += new_m * (g - m);
      v += new_v * (g * g - v);
      w = keep * w - rate * m / (sqrt(v) + eps);
    };
    kernels::sweep(parameters.size(), step, parameters.data(), slots[0], slots[1], gradients.data());
  }

 private:
  // Not std::pow: its last bit may differ between machines, and with it the ranks' parameters.
  static constexpr double power(double base, std::int64_t exponent) {
    double result = 1;
    for (; exponent > 0; exponent /= 2, base *= base)
      if (exponent % 2 == 1) result *= base;
    return result;
  }
};
static_assert(Optimizer<Adam, float> && Optimizer<Adam, double>);

LOCKSTEP_INSTANCE(void Adam::update<float>(const UpdateContext&, std::span<float>, std::span<const float>,
                                           std::span<float* const>) const);
LOCKSTEP_INSTANCE(void Adam::update<double>(const UpdateContext&, std::span<double>, std::span<const double>,
                                            std::span<double* const>) const);

}  // namespace lockstep::inline LOCKSTEP_ABI

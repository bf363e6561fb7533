// Adam with Nesterov momentum.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/keras_slots.hpp"
#include "lockstep/optimizers/learning_rate.hpp"
#include "lockstep/optimizers/power.hpp"
#include "lockstep/optimizers/update_rules.hpp"
#include "lockstep/optimizers/variable_filter.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Nadam: Dozat, "Incorporating Nesterov momentum into Adam", ICLR workshop 2016; Keras's formulas.
/// With g the mean gradient, t the iteration, m and v slots, u_t = beta_1 * (1 - 0.5 * 0.96^t), and
/// U_t the product of u_1 to u_t:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first
///   m += (1 - beta_1) * (g - m);  v += (1 - beta_2) * (g * g - v)
///   d = u_{t+1} / (1 - U_{t+1}) * m + (1 - u_t) / (1 - U_t) * g
///   w -= learning_rate * d / (sqrt(v / (1 - beta_2^t)) + epsilon)
struct Nadam {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9;    ///< in [0, 1)
  double beta_2 = 0.999;  ///< in [0, 1)
  double epsilon = 1e-7;
  double weight_decay = 0;
  double clipnorm = 0;         ///< the largest norm of a variable's gradient; 0: any
  double clipvalue = 0;        ///< the largest element of a gradient; 0: any
  double global_clipnorm = 0;  ///< the largest norm of all gradients together; 0: any
  VariableFilter exclude_from_weight_decay = {};
  LearningRateFactors learning_rate_factors = {};
  bool use_ema = false;  ///< keeps moving averages of the weights, which replace them when fit ends
  double ema_momentum = 0.99;                ///< in [0, 1]
  std::int64_t ema_overwrite_frequency = 0;  ///< updates until averages replace weights; 0: never
  std::int64_t gradient_accumulation_steps = 1;  ///< gradients of so many steps make an update

  static constexpr std::string_view name = "Nadam";

  [[nodiscard]] std::string description() const {
    return detail::describe_optimizer(*this, {{"learning_rate", learning_rate.description()},
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

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const {
    keras.each_variable({{.slot = 0}, {.slot = 1}});
    keras.number(product(keras.iterations()));
  }

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const {
    const std::int64_t t = context.iteration;
    const T by_m = static_cast<T>(factor(t + 1) / (1 - product(t + 1)));
    const T by_g = static_cast<T>((1 - factor(t)) / (1 - product(t)));
    const T by_v = static_cast<T>(1 / (1 - detail::power(beta_2, t)));
    const T rate = static_cast<T>(context.learning_rate), eps = static_cast<T>(epsilon);
    const T new_m = static_cast<T>(1 - beta_1), new_v = static_cast<T>(1 - beta_2);
    const T keep = static_cast<T>(context.keep(weight_decay));
    const T scale = static_cast<T>(context.gradient_scale);
    const auto step = [=](auto& w, auto& m, auto& v, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
      const auto g = scale * gradient;
      m += new_m * (g - m);
      v += new_v * (g * g - v);
      w = keep * w - rate * (by_m * m + by_g * g) / (sqrt(by_v * v) + eps);
    };
    kernels::sweep(parameters.size(), step, parameters.data(), slots[0], slots[1],
                   gradients.data());
  }

 private:
  static constexpr std::int64_t varying = 1000;  // 1 - 0.5 * 0.96^t is 1 from then on

  [[nodiscard]] double factor(std::int64_t t) const {
    return beta_1 * (1 - 0.5 * detail::power(0.96, std::min(t, varying)));
  }
  [[nodiscard]] double product(std::int64_t t) const {
    double result = detail::power(beta_1, t), decay = 1;
    for (std::int64_t i = std::min(t, varying); i > 0; --i) result *= 1 - 0.5 * (decay *= 0.96);
    return result;
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI

// The sign of the momentum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/keras_slots.hpp"
#include "lockstep/optimizers/update_rules.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Lion: Chen et al., "Symbolic discovery of optimization algorithms", NeurIPS 2023. With g the
/// mean gradient and m a slot:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first
///   w -= learning_rate * sign(beta_1 * m + (1 - beta_1) * g)
///   m = beta_2 * m + (1 - beta_2) * g           after it
/// Use: `Lion{}`.
struct Lion {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9;   ///< in [0, 1)
  double beta_2 = 0.99;  ///< in [0, 1)
  double weight_decay = 0;
  double clipnorm = 0;         ///< the largest norm of a variable's gradient; 0: any
  double clipvalue = 0;        ///< the largest element of a gradient; 0: any
  double global_clipnorm = 0;  ///< the largest norm of all gradients together; 0: any
  VariableFilter exclude_from_weight_decay = {};
  LearningRateFactors learning_rate_factors = {};
  bool use_ema = false;  ///< keeps moving averages of the weights, which replace them when fit ends
  double ema_momentum = 0.99;                ///< in [0, 1]
  std::int64_t ema_overwrite_frequency = 0;  ///< updates until averages replace weights; 0: never
  std::int64_t gradient_accumulation_steps = 1;  ///< steps whose gradients make one update

  static constexpr std::string_view name = "Lion";

  [[nodiscard]] std::string description() const {
    return detail::describe_optimizer(*this, {{"learning_rate", learning_rate.description()},
                                              {"beta_1", beta_1},
                                              {"beta_2", beta_2},
                                              {"weight_decay", weight_decay}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    detail::require_not_negative(name, "learning_rate", learning_rate);
    detail::require_decay_rate(name, "beta_1", beta_1);
    detail::require_decay_rate(name, "beta_2", beta_2);
    detail::require_not_negative(name, "weight_decay", weight_decay);
  }

  [[nodiscard]] constexpr std::size_t slots() const { return 1; }

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const { keras.each_variable({{.slot = 0}}); }

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const;
};

template <class T>
void Lion::update(const UpdateContext& context, std::span<T> parameters,
                  std::span<const T> gradients, std::span<T* const> slots) const {
  const T rate = static_cast<T>(context.learning_rate);
  const T old_1 = static_cast<T>(beta_1), new_1 = static_cast<T>(1 - beta_1);
  const T old_2 = static_cast<T>(beta_2), new_2 = static_cast<T>(1 - beta_2);
  const T keep = static_cast<T>(context.keep(weight_decay));
  const T scale = static_cast<T>(context.gradient_scale);
  const auto step = [=](auto& w, auto& m, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
    using P = std::remove_cvref_t<decltype(w)>;
    const auto g = scale * gradient;
    const auto sum = old_1 * m + new_1 * g;
    const auto sign =
        select(sum < P(T(0)), P(T(-1)), select(sum > P(T(0)), P(T(1)), sum));  // 0 and NaN stay
    w = keep * w - rate * sign;
    m = old_2 * m + new_2 * g;
  };
  kernels::sweep(parameters.size(), step, parameters.data(), slots[0], gradients.data());
}

}}  // namespace lockstep

#pragma once

#include <algorithm>

#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/nadam.hpp"
#include "lockstep/optimizers/power.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string Nadam::description() const {
  return detail::describe_optimizer(*this, {{"learning_rate", learning_rate.description()},
                                            {"beta_1", beta_1},
                                            {"beta_2", beta_2},
                                            {"epsilon", epsilon},
                                            {"weight_decay", weight_decay}});
}

LOCKSTEP_INLINE void Nadam::validate() const {
  detail::require_not_negative(name, "learning_rate", learning_rate);
  detail::require_decay_rate(name, "beta_1", beta_1);
  detail::require_decay_rate(name, "beta_2", beta_2);
  detail::require_not_negative(name, "epsilon", epsilon);
  detail::require_not_negative(name, "weight_decay", weight_decay);
}

LOCKSTEP_INLINE void Nadam::keras_slots(KerasSlots& keras) const {
  keras.each_variable({{.slot = 0}, {.slot = 1}});
  keras.number(product(keras.iterations()));
}

template <class T>
void Nadam::update(const UpdateContext& context, std::span<T> parameters,
                   std::span<const T> gradients, std::span<T* const> slots) const {
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
  kernels::sweep(parameters.size(), step, parameters.data(), slots[0], slots[1], gradients.data());
}

LOCKSTEP_INLINE double Nadam::factor(std::int64_t t) const {
  return beta_1 * (1 - 0.5 * detail::power(0.96, std::min(t, varying)));
}

LOCKSTEP_INLINE double Nadam::product(std::int64_t t) const {
  double result = detail::power(beta_1, t), decay = 1;
  for (std::int64_t i = std::min(t, varying); i > 0; --i) result *= 1 - 0.5 * (decay *= 0.96);
  return result;
}

}  // namespace lockstep::inline LOCKSTEP_ABI

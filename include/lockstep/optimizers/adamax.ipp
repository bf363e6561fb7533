#pragma once

#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/adamax.hpp"
#include "lockstep/optimizers/power.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string Adamax::description() const {
  return detail::describe_optimizer(*this, {{"learning_rate", learning_rate.description()},
                                            {"beta_1", beta_1},
                                            {"beta_2", beta_2},
                                            {"epsilon", epsilon},
                                            {"weight_decay", weight_decay}});
}

LOCKSTEP_INLINE void Adamax::validate() const {
  detail::require_not_negative(name, "learning_rate", learning_rate);
  detail::require_decay_rate(name, "beta_1", beta_1);
  detail::require_decay_rate(name, "beta_2", beta_2);
  detail::require_not_negative(name, "epsilon", epsilon);
  detail::require_not_negative(name, "weight_decay", weight_decay);
}

template <class T>
void Adamax::update(const UpdateContext& context, std::span<T> parameters,
                    std::span<const T> gradients, std::span<T* const> slots) const {
  const T rate =
      static_cast<T>(context.learning_rate / (1 - detail::power(beta_1, context.iteration)));
  const T new_m = static_cast<T>(1 - beta_1), old_u = static_cast<T>(beta_2),
          eps = static_cast<T>(epsilon);
  const T keep = static_cast<T>(context.keep(weight_decay));
  const T scale = static_cast<T>(context.gradient_scale);
  const auto step = [=](auto& w, auto& m, auto& u, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
    const auto g = scale * gradient;
    m += new_m * (g - m);
    u = max(old_u * u, abs(g));
    w = keep * w - rate * m / (u + eps);
  };
  kernels::sweep(parameters.size(), step, parameters.data(), slots[0], slots[1], gradients.data());
}

}  // namespace lockstep::inline LOCKSTEP_ABI

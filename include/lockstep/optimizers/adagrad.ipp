#pragma once

#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/adagrad.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string Adagrad::description() const {
  return detail::describe_optimizer(*this,
                                    {{"learning_rate", learning_rate.description()},
                                     {"initial_accumulator_value", initial_accumulator_value},
                                     {"epsilon", epsilon},
                                     {"weight_decay", weight_decay}});
}

LOCKSTEP_INLINE void Adagrad::validate() const {
  detail::require_not_negative(name, "learning_rate", learning_rate);
  detail::require_not_negative(name, "initial_accumulator_value", initial_accumulator_value);
  detail::require_not_negative(name, "epsilon", epsilon);
  detail::require_not_negative(name, "weight_decay", weight_decay);
}

template <class T>
void Adagrad::update(const UpdateContext& context, std::span<T> parameters,
                     std::span<const T> gradients, std::span<T* const> slots) const {
  const T rate = static_cast<T>(context.learning_rate), eps = static_cast<T>(epsilon);
  const T keep = static_cast<T>(context.keep(weight_decay));
  const T scale = static_cast<T>(context.gradient_scale);
  const auto step = [=](auto& w, auto& a, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
    const auto g = scale * gradient;
    a += g * g;
    w = keep * w - rate * g / sqrt(a + eps);
  };
  kernels::sweep(parameters.size(), step, parameters.data(), slots[0], gradients.data());
}

}  // namespace lockstep::inline LOCKSTEP_ABI

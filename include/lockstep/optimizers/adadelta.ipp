#pragma once

#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/adadelta.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string Adadelta::description() const {
  return detail::describe_optimizer(*this, {{"learning_rate", learning_rate.description()},
                                            {"rho", rho},
                                            {"epsilon", epsilon},
                                            {"weight_decay", weight_decay}});
}

LOCKSTEP_INLINE void Adadelta::validate() const {
  detail::require_not_negative(name, "learning_rate", learning_rate);
  detail::require_decay_rate(name, "rho", rho);
  detail::require_not_negative(name, "epsilon", epsilon);
  detail::require_not_negative(name, "weight_decay", weight_decay);
}

template <class T>
void Adadelta::update(const UpdateContext& context, std::span<T> parameters,
                      std::span<const T> gradients, std::span<T* const> slots) const {
  const T rate = static_cast<T>(context.learning_rate), eps = static_cast<T>(epsilon);
  const T old = static_cast<T>(rho), fresh = static_cast<T>(1 - rho);
  const T keep = static_cast<T>(context.keep(weight_decay));
  const T scale = static_cast<T>(context.gradient_scale);
  const auto step = [=](auto& w, auto& of_gradients, auto& of_moves, const auto& gradient)
                        LOCKSTEP_KERNEL_LAMBDA {
                          const auto g = scale * gradient;
                          of_gradients = old * of_gradients + fresh * (g * g);
                          const auto move = sqrt(of_moves + eps) / sqrt(of_gradients + eps) * g;
                          of_moves = old * of_moves + fresh * (move * move);
                          w = keep * w - rate * move;
                        };
  kernels::sweep(parameters.size(), step, parameters.data(), slots[0], slots[1], gradients.data());
}

}  // namespace lockstep::inline LOCKSTEP_ABI

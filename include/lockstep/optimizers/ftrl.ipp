#pragma once

#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/ftrl.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string Ftrl::description() const {
  return detail::describe_optimizer(
      *this, {{"learning_rate", learning_rate.description()},
              {"initial_accumulator_value", initial_accumulator_value},
              {"l1_regularization_strength", l1_regularization_strength},
              {"l2_regularization_strength", l2_regularization_strength},
              {"l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength},
              {"beta", beta},
              {"weight_decay", weight_decay}});
}

LOCKSTEP_INLINE void Ftrl::validate() const {
  detail::require_not_negative(name, "learning_rate", learning_rate);
  detail::require_not_negative(name, "initial_accumulator_value", initial_accumulator_value);
  detail::require_not_negative(name, "l1_regularization_strength", l1_regularization_strength);
  detail::require_not_negative(name, "l2_regularization_strength", l2_regularization_strength);
  detail::require_not_negative(name, "l2_shrinkage_regularization_strength",
                               l2_shrinkage_regularization_strength);
  detail::require_not_negative(name, "beta", beta);
  detail::require_not_negative(name, "weight_decay", weight_decay);
  detail::require_option(initial_accumulator_value + l2_regularization_strength + beta > 0, name,
                         "initial_accumulator_value", initial_accumulator_value,
                         "a number above 0, unless l2_regularization_strength or beta is");
}

LOCKSTEP_INLINE void Ftrl::keras_slots(KerasSlots& keras) const {
  keras.each_variable({{.slot = 0, .added = initial_accumulator_value}, {.slot = 1}});
}

template <class T>
void Ftrl::update(const UpdateContext& context, std::span<T> parameters,
                  std::span<const T> gradients, std::span<T* const> slots) const {
  if (context.learning_rate == 0) return;
  const T per_rate = static_cast<T>(1 / context.learning_rate),
          first = static_cast<T>(initial_accumulator_value);
  const T l1 = static_cast<T>(l1_regularization_strength);
  const T l2 = static_cast<T>(2 * l2_regularization_strength + beta / context.learning_rate);
  const T shrinkage = static_cast<T>(2 * l2_shrinkage_regularization_strength);
  const T keep = static_cast<T>(context.keep(weight_decay)),
          scale = static_cast<T>(context.gradient_scale);
  const auto step = [=](auto& w, auto& added, auto& z, const auto& gradient)
                        LOCKSTEP_KERNEL_LAMBDA {
                          using P = std::remove_cvref_t<decltype(w)>;
                          const auto g = scale * gradient;
                          w = keep * w;
                          const auto before = sqrt(first + added);
                          added += g * g;
                          const auto after = sqrt(first + added);
                          z += g + shrinkage * w - per_rate * (after - before) * w;
                          w = (max(P(-l1), min(P(l1), z)) - z) / (per_rate * after + l2);
                        };
  kernels::sweep(parameters.size(), step, parameters.data(), slots[0], slots[1], gradients.data());
}

}  // namespace lockstep::inline LOCKSTEP_ABI

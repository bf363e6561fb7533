#pragma once

#include "lockstep/optimizers/adamw.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string AdamW::description() const {
  return detail::describe_optimizer(*this, {{"learning_rate", learning_rate.description()},
                                            {"weight_decay", weight_decay},
                                            {"beta_1", beta_1},
                                            {"beta_2", beta_2},
                                            {"epsilon", epsilon}});
}

LOCKSTEP_INLINE void AdamW::keras_slots(KerasSlots& keras) const {
  keras.each_variable({{.slot = 0}, {.slot = 1}});
  if (amsgrad) keras.each_variable({{.slot = 2}});
}

template <class T>
void AdamW::update(const UpdateContext& context, std::span<T> parameters,
                   std::span<const T> gradients, std::span<T* const> slots) const {
  detail::update_adam({beta_1, beta_2, epsilon, weight_decay, amsgrad}, context, parameters,
                      gradients, slots);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

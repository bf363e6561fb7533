#pragma once

#include "lockstep/optimizers/keras_slots.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE void KerasSlots::of_variable(std::size_t variable, KerasSlot slot) {
  slot.variable = variable;
  list_.push_back(slot);
}

LOCKSTEP_INLINE void KerasSlots::each_variable(std::initializer_list<KerasSlot> slots) {
  for (const std::size_t variable : order_)
    for (const KerasSlot& slot : slots) of_variable(variable, slot);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

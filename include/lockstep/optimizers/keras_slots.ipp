#pragma once

#include <utility>

#include "lockstep/optimizers/keras_slots.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE KerasSlots::KerasSlots(std::span<const Variable> variables,
                                       std::span<const std::string> names,
                                       std::vector<std::size_t> order, std::int64_t iterations)
    : variables_(variables), names_(names), order_(std::move(order)), iterations_(iterations) {}

LOCKSTEP_INLINE void KerasSlots::of_variable(std::size_t variable, KerasSlot slot) {
  slot.variable = variable;
  list_.push_back(slot);
}

LOCKSTEP_INLINE void KerasSlots::each_variable(std::initializer_list<KerasSlot> slots) {
  for (const std::size_t variable : order_)
    for (const KerasSlot& slot : slots) of_variable(variable, slot);
}

LOCKSTEP_INLINE void KerasSlots::number(double value) {
  list_.push_back({.part = KerasSlot::Part::number, .added = value});
}

}}  // namespace lockstep

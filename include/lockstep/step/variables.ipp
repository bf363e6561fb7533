#pragma once

#include <algorithm>
#include <utility>

#include "lockstep/core/crc32c.hpp"
#include "lockstep/step/variables.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
void initialize(std::span<const Variable> variables, std::span<const std::span<T>> slices, RandomKey key) {
  for (std::size_t i = 0; i < variables.size(); ++i) {
    RandomStream random(key.fold_in(i));
    const Variable& variable = variables[i];
    for (T& value : slices[i])
      value = variable.initializer != nullptr ? static_cast<T>(variable.initializer(random, variable.fans)) : T(0);
  }
}

template <class T>
Variables<T>::Variables(const Program<T>& program)
    : learning_rate(program.initial_learning_rate()), program_(program), parameters_(program.layout().variables) {
  const T initial = static_cast<T>(program.initial_slot_value());
  slots_.reserve(program.layout().slots);
  for (std::size_t i = 0; i < program.layout().slots; ++i) {
    slots_.emplace_back(program.layout().variables);
    if (initial != T(0))
      for (const std::span<T> slice : slots_.back().slices()) std::fill(slice.begin(), slice.end(), initial);
  }
}

template <class T>
void Variables<T>::allocate_parameters(Allocate allocate) {
  parameters_ = Arena<T>(program_.layout().variables, allocate);
}

template <class T>
void Variables<T>::swap_parameters(Arena<T>& arena) noexcept {
  std::swap(parameters_, arena);
}

template <class T>
std::uint32_t Variables<T>::parameters_crc32c() const {
  std::uint32_t crc = 0;
  for (const std::span<T> slice : parameters_.slices()) crc = crc32c(std::as_bytes(slice), crc);
  return crc;
}

template <class T>
void Variables<T>::update(std::span<T> parameters, std::span<const T> gradients, std::size_t begin, double samples,
                          std::int64_t iteration) const {
  T* slots[Program<T>::max_slots] = {};
  for (std::size_t i = 0; i < slots_.size(); ++i) slots[i] = slots_[i].values().data() + begin;
  program_.update({.iteration = iteration, .learning_rate = learning_rate, .gradient_scale = 1.0 / samples}, parameters,
                  gradients, std::span<T* const>(slots, slots_.size()));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#pragma once

#include <algorithm>
#include <iterator>
#include <utility>

#include "lockstep/core/crc32c.hpp"
#include "lockstep/step/variables.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
void initialize(std::span<const Variable> variables, std::span<const std::span<T>> slices, RandomKey key) {
  for (std::size_t i = 0; i < variables.size(); ++i) {
    RandomStream random(key.fold_in(i));
    variables[i].initializer.fill(random, variables[i].shape(), variables[i].fans, slices[i]);
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
  const UpdateRules rules = program.update_rules();
  ranges_.emplace_back();
  for (std::size_t i = rules.variables.size(); i > 0; --i) {  // the last variable is the first in the arena
    const auto begin = static_cast<std::size_t>(parameters_.slices()[i - 1].data() - parameters_.values().data());
    if (begin == 0)
      ranges_.back().rule = rules.variables[i - 1];
    else if (ranges_.back().rule != rules.variables[i - 1])
      ranges_.push_back({.begin = begin, .rule = rules.variables[i - 1]});
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
  auto range = std::ranges::upper_bound(ranges_, begin, {}, &UpdateRange::begin);  // the one behind
  for (std::size_t done = 0; done < parameters.size();) {
    const VariableRule& rule = std::prev(range)->rule;
    const std::size_t end =
        range == ranges_.end() ? parameters.size() : std::min(parameters.size(), range->begin - begin);
    T* slots[Program<T>::max_slots] = {};
    for (std::size_t i = 0; i < slots_.size(); ++i) slots[i] = slots_[i].values().data() + begin + done;
    program_.update({.iteration = iteration,
                     .learning_rate = learning_rate * rule.learning_rate_factor,
                     .gradient_scale = 1.0 / samples,
                     .decays = rule.decays},
                    parameters.subspan(done, end - done), gradients.subspan(done, end - done),
                    std::span<T* const>(slots, slots_.size()));
    done = end;
    if (range != ranges_.end()) ++range;
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

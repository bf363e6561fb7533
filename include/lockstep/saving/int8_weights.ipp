#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/kernels/int8.hpp"
#include "lockstep/saving/int8_weights.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE ConstantVariables<float> int8_variables(const Program<float>& program,
                                                        ConstantVariables<float> variables) {
  const std::span<const Variable> lists[2] = {program.layout().variables,
                                              program.layout().state_variables};
  Arena<float>* const arenas[2] = {&variables.parameters, &variables.state};
  const auto inputs = [](const Variable& v) { return v.size() / v.product_units; };
  std::size_t bytes = 0;
  for (const std::span<const Variable> list : lists)
    for (const Variable& variable : list)
      if (fits_int8(variable))
        bytes += kernels::Int8Kernel::bytes(inputs(variable), variable.product_units);
  variables.memory = Buffer(bytes);
  std::byte* next = variables.memory.data();
  for (std::size_t i = 0; i < 2; ++i) {
    const std::span<const Variable> list = lists[i];
    std::vector<Variable> others;
    std::ranges::copy_if(list, std::back_inserter(others),
                         [](const Variable& variable) { return !fits_int8(variable); });
    Arena<float> arena(others);
    auto other = arena.slices().begin();
    for (std::size_t v = 0; v < list.size(); ++v) {
      const std::span<float> from = arenas[i]->slices()[v];
      if (fits_int8(list[v])) {
        const std::size_t units = list[v].product_units;
        kernels::quantize_int8(inputs(list[v]), units, from.data(), {inputs(list[v]), units, next},
                               list[v].is_table);
        const std::size_t size = kernels::Int8Kernel::bytes(inputs(list[v]), units);
        variables.slices[i].push_back({reinterpret_cast<float*>(next), size / sizeof(float)});
        next += size;
      } else {
        std::ranges::copy(from, other->begin());
        variables.slices[i].push_back(*other++);
      }
    }
    *arenas[i] = std::move(arena);
  }
  variables.mixed = {variables.memory.data(), next, kernels::multiply_int8, kernels::gather_int8};
  return variables;
}

}}}  // namespace lockstep::detail

// The variables of a model by name.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/arena.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/step/program.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A variable of a model, and its values in one replica.
template <class T>
struct NamedArray {
  std::string name;
  const Variable* variable = nullptr;
  std::span<T> values;
};

/// The variables layer by layer, the trained ones before the others, with their values in two
/// arenas.
template <class T>
[[nodiscard]] std::vector<NamedArray<T>> named_arrays(const Program<T>& program,
                                                      const Arena<T>& trained,
                                                      const Arena<T>& untrained) {
  ProgramNames names = program.names();
  std::vector<NamedArray<T>> arrays;
  arrays.reserve(names.order.size());
  for (const auto [is_trained, i] : names.order)
    if (is_trained)
      arrays.push_back(
          {std::move(names.variables[i]), &program.layout().variables[i], trained.slices()[i]});
    else
      arrays.push_back({std::move(names.state_variables[i]), &program.layout().state_variables[i],
                        untrained.slices()[i]});
  return arrays;
}

}}}  // namespace lockstep::detail

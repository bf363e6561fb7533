#pragma once

#include "lockstep/core/describe.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string describe(std::string_view name, std::initializer_list<Option> options) {
  std::string text(name);
  const char* separator = "(";
  for (const Option& option : options) {
    text.append(separator).append(option.name).append("=").append(option.value);
    separator = ", ";
  }
  return options.size() == 0 ? text : text + ")";
}

}}  // namespace lockstep

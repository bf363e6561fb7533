#pragma once

#include <charconv>

#include "lockstep/core/describe.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string number_text(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}

LOCKSTEP_INLINE std::string describe(std::string_view name, std::initializer_list<Option> options) {
  std::string text(name);
  const char* separator = "(";
  for (const Option& option : options) {
    text.append(separator).append(option.name).append("=").append(option.value);
    separator = ", ";
  }
  return options.size() == 0 ? text : text + ")";
}

}  // namespace lockstep::inline LOCKSTEP_ABI

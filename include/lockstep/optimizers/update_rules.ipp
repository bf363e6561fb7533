#pragma once

#include "lockstep/optimizers/update_rules.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE void check_filter(std::string_view optimizer, std::string_view option,
                                  const VariableFilter& filter,
                                  std::span<const std::string> names) {
  for (const std::string& pattern : filter.patterns()) {
    bool found = false;
    std::string list;
    for (const std::string& name : names) {
      found |= VariableFilter::matches(pattern, name);
      list.append(list.empty() ? "" : ", ").append(name);
    }
    if (!found)
      throw ConfigurationError(std::string(optimizer)
                                   .append(": ")
                                   .append(option)
                                   .append(": '")
                                   .append(pattern)
                                   .append("' is the name of no variable; there are: ")
                                   .append(list));
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

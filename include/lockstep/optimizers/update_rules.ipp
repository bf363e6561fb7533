#pragma once

#include "lockstep/optimizers/update_rules.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE bool VariableFilter::contains(std::string_view name, std::size_t dimensions) const {
  return dimensions < dimensions_ ||
         std::ranges::any_of(patterns_,
                             [&](const std::string& pattern) { return matches(pattern, name); });
}

LOCKSTEP_INLINE bool VariableFilter::matches(const std::string& pattern, std::string_view name) {
  if (pattern.find('/') != std::string::npos) return is_like(pattern, name);
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    if (is_like(pattern, name.substr(begin, end - begin))) return true;
    begin = end + 1;
  }
  return false;
}

LOCKSTEP_INLINE std::string VariableFilter::description() const {
  std::string text;
  for (const std::string& pattern : patterns_) text.append(text.empty() ? "" : "|").append(pattern);
  if (dimensions_ > 0)
    text.append(text.empty() ? "<" : "|<").append(std::to_string(dimensions_)).append("d");
  return text;
}

LOCKSTEP_INLINE VariableFilter fewer_dimensions_than(std::size_t dimensions) {
  VariableFilter filter;
  filter.dimensions_ = dimensions;
  return filter;
}

}}  // namespace lockstep

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

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

}}}  // namespace lockstep::detail

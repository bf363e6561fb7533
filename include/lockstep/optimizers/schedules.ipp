#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/optimizers/schedules.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string PiecewiseConstantDecay::description() const {
  std::string list = number_text(values[0]);
  for (std::size_t i = 0; i < boundaries.size(); ++i)
    list += " until " + std::to_string(boundaries[i]) + " then " + number_text(values[i + 1]);
  return describe(name, {{"values", list}});
}

LOCKSTEP_INLINE void PiecewiseConstantDecay::validate() const {
  if (values.size() != boundaries.size() + 1)
    throw ConfigurationError("PiecewiseConstantDecay: " + std::to_string(boundaries.size()) +
                             " boundaries want one value more, got " +
                             std::to_string(values.size()) + " values");
  for (const double value : values) detail::require_not_negative(name, "a value", value);
  for (std::size_t i = 0; i < boundaries.size(); ++i)
    detail::require_count(name, "a boundary", boundaries[i], i == 0 ? 0 : boundaries[i - 1]);
}

LOCKSTEP_INLINE double PiecewiseConstantDecay::operator()(std::int64_t step) const {
  return values[static_cast<std::size_t>(std::ranges::lower_bound(boundaries, step) -
                                         boundaries.begin())];
}

}}  // namespace lockstep

#pragma once

#include "lockstep/core/shape.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string shape_text(std::span<const std::size_t> extents) {
  std::string text = "(";
  for (const std::size_t extent : extents) text += concat({text.size() > 1 ? ", " : "", extent});
  return text + ")";
}

}}  // namespace lockstep

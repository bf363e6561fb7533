// Whole powers, with the same bits on every machine.
#pragma once

#include <cstdint>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// base^exponent, exponent at least 0. (Not std::pow: its last bit may differ between machines, and
/// with it the ranks' parameters.)
[[nodiscard]] constexpr double power(double base, std::int64_t exponent) noexcept {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2 == 1) result *= base;
  return result;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

// Arrays of 16-bit floating-point numbers in files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Converts 16-bit numbers to floats, both as bytes.
inline std::vector<std::byte> widen(std::span<const std::byte> bytes,
                                    float (*convert)(std::uint16_t) noexcept) {
  std::vector<std::byte> wide(bytes.size() * 2);
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    std::uint16_t number = 0;
    std::memcpy(&number, bytes.data() + i, 2);
    const float value = convert(number);
    std::memcpy(wide.data() + 2 * i, &value, 4);
  }
  return wide;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

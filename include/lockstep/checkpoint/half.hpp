// Numbers of 16 bits in files.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// IEEE 754 binary16 as float; exact.
inline float float_of_half(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t exponent = half >> 10 & 0x1FU;
  const std::uint32_t fraction = half & 0x3FFU;
  if (exponent == 0) {  // zero and subnormal numbers: fraction * 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 0x1F ? 0xFFU : exponent + (127 - 15);  // infinities and NaNs keep theirs
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

/// The upper half of a float, as a float.
inline float float_of_bfloat16(std::uint16_t upper) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(upper) << 16);
}

/// The bytes of 16-bit numbers as the bytes of floats.
inline std::vector<std::byte> widen(std::span<const std::byte> bytes, float (*convert)(std::uint16_t) noexcept) {
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

// Floating-point numbers of 16 bits.
#pragma once

#include <bit>
#include <cstdint>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

// Both round to the nearest, ties to even; NaN stays NaN. They have no branches and are always
// inlined, so that the compiler vectorizes loops over them for the caller's instruction set.

/// The upper half of a float: its range, 8 bits of precision.
struct Bfloat16 {
  [[nodiscard]] __attribute__((always_inline)) static constexpr std::uint16_t encode(
      float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    const bool is_nan = (bits & 0x7FFF'FFFF) > 0x7F80'0000;
    return static_cast<std::uint16_t>(is_nan ? (bits >> 16 | 0x40) : rounded);
  }
  [[nodiscard]] __attribute__((always_inline)) static constexpr float decode(
      std::uint16_t bits) noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// IEEE 754 binary16: 11 bits of precision; infinite beyond 65504.
struct Float16 {
  [[nodiscard]] __attribute__((always_inline)) static constexpr std::uint16_t encode(
      float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7FFF'FFFF;
    // The exponent's bias changes from 127 to 15, and 13 bits are rounded away.
    const std::uint32_t shifted = (magnitude - (112U << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13;
    // Below 2^-14 adding a number whose last bit is the smallest half does the rounding.
    constexpr std::uint32_t half_bits = (127U - 15 + 23 - 10 + 1) << 23;
    const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) +
                                                             std::bit_cast<float>(half_bits)) -
                                half_bits;
    const std::uint32_t large = magnitude > 0x7F80'0000 ? 0x7E00 : 0x7C00;  // NaN, infinity
    const std::uint32_t finite = magnitude < (113U << 23) ? small : shifted;
    return static_cast<std::uint16_t>((magnitude >= (143U << 23) ? large : finite) |
                                      (bits >> 16 & 0x8000));
  }
  [[nodiscard]] __attribute__((always_inline)) static constexpr float decode(
      std::uint16_t bits) noexcept {
    const std::uint32_t magnitude = (bits & 0x7FFFU) << 13;
    const std::uint32_t exponent = magnitude & (31U << 23);
    const std::uint32_t shifted = magnitude + (112U << 23);
    const auto small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude + (113U << 23)) -
                                                    std::bit_cast<float>(113U << 23));
    const std::uint32_t value = exponent == (31U << 23) ? shifted + (112U << 23)
                                : exponent == 0         ? small
                                                        : shifted;
    return std::bit_cast<float>(value | (bits & 0x8000U) << 16);
  }
};

}}}  // namespace lockstep::detail

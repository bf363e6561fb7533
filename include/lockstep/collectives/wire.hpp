// How values travel between ranks.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The type of gradients on the wire. Sums are formed in float32 in any case, a status block is never rounded, and all ranks hold equal
/// bits.
enum class Wire : std::uint8_t {
  native,    ///< as they are
  bfloat16,  ///< float32's range, 8 bits of precision; half the bytes
  float16,   ///< IEEE half: 11 bits of precision; infinite beyond 65504, and less precise below 6e-5
};

[[nodiscard]] constexpr const char* to_string(Wire wire) noexcept {
  return wire == Wire::bfloat16 ? "bfloat16" : wire == Wire::float16 ? "float16" : "native";
}

namespace detail {

// Both round to the nearest, ties to even; NaN stays NaN.

template <Wire wire>
struct WireFormat;

template <>
struct WireFormat<Wire::bfloat16> {
  [[nodiscard]] LOCKSTEP_KERNEL static constexpr std::uint16_t encode(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    const bool is_nan = (bits & 0x7FFF'FFFF) > 0x7F80'0000;
    return static_cast<std::uint16_t>(is_nan ? (bits >> 16 | 0x40) : rounded);
  }
  [[nodiscard]] LOCKSTEP_KERNEL static constexpr float decode(std::uint16_t bits) noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

template <>
struct WireFormat<Wire::float16> {
  [[nodiscard]] LOCKSTEP_KERNEL static constexpr std::uint16_t encode(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7FFF'FFFF;
    // The exponent's bias changes from 127 to 15, and 13 bits are rounded away.
    const std::uint32_t normal = (magnitude - (112U << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13;
    // Below 2^-14 adding a number whose last bit is the smallest half does the rounding.
    constexpr std::uint32_t half_bits = (127U - 15 + 23 - 10 + 1) << 23;
    const std::uint32_t small =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(half_bits)) - half_bits;
    const std::uint32_t large = magnitude > 0x7F80'0000 ? 0x7E00 : 0x7C00;  // NaN, infinity
    const std::uint32_t finite = magnitude < (113U << 23) ? small : normal;
    return static_cast<std::uint16_t>((magnitude >= (143U << 23) ? large : finite) | (bits >> 16 & 0x8000));
  }
  [[nodiscard]] LOCKSTEP_KERNEL static constexpr float decode(std::uint16_t bits) noexcept {
    const std::uint32_t magnitude = (bits & 0x7FFFU) << 13;
    const std::uint32_t exponent = magnitude & (31U << 23);
    const std::uint32_t normal = magnitude + (112U << 23);
    const auto small =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude + (113U << 23)) - std::bit_cast<float>(113U << 23));
    const std::uint32_t value = exponent == (31U << 23) ? normal + (112U << 23) : exponent == 0 ? small : normal;
    return std::bit_cast<float>(value | (bits & 0x8000U) << 16);
  }
};

/// f(i) for each i below count, compiled for the instruction set in force. (A constant trip count lets g++ vectorise at -O2.)
template <class F>
void for_each_index(std::size_t count, const F& f) noexcept {
  kernels::dispatch([&]<class Isa>() LOCKSTEP_KERNEL_LAMBDA {
    constexpr std::size_t chunk = 64;
    const F copy = f;
    std::size_t i = 0;
    for (; i + chunk <= count; i += chunk)
      for (std::size_t j = 0; j < chunk; ++j) copy(i + j);
    for (; i < count; ++i) copy(i);
  });
}

/// target[i] = encoded source[i].
template <Wire wire>
void encode(std::uint16_t* __restrict target, const float* __restrict source, std::size_t count) noexcept {
  for_each_index(count, [=](std::size_t i) LOCKSTEP_KERNEL_LAMBDA { target[i] = WireFormat<wire>::encode(source[i]); });
}

/// target[i] = decoded source[i].
template <Wire wire>
void decode(float* __restrict target, const std::uint16_t* __restrict source, std::size_t count) noexcept {
  for_each_index(count, [=](std::size_t i) LOCKSTEP_KERNEL_LAMBDA { target[i] = WireFormat<wire>::decode(source[i]); });
}

/// target[i] = decoded source[i] + target[i].
template <Wire wire>
void decode_add(float* __restrict target, const std::uint16_t* __restrict source, std::size_t count) noexcept {
  for_each_index(count, [=](std::size_t i)
                            LOCKSTEP_KERNEL_LAMBDA { target[i] = WireFormat<wire>::decode(source[i]) + target[i]; });
}

/// values[i] = what the others will decode.
template <Wire wire>
void round_to_wire(float* values, std::size_t count) noexcept {
  for_each_index(count, [=](std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
    values[i] = WireFormat<wire>::decode(WireFormat<wire>::encode(values[i]));
  });
}

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI

// How values travel between ranks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/core/config.hpp"
#include "lockstep/core/half.hpp"
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

template <Wire wire>
struct WireFormat;

template <>
struct WireFormat<Wire::bfloat16> : Bfloat16 {};

template <>
struct WireFormat<Wire::float16> : Float16 {};

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

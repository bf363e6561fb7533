#pragma once

#include "lockstep/collectives/reduction/halves.hpp"
#include "lockstep/core/half.hpp"
#include "lockstep/kernels/dispatch.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// f(i) for each i below count, compiled for the instruction set in force. (A constant trip count
/// lets g++ vectorise at -O2.)
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

template <class Format>
void encode_array(std::uint16_t* __restrict target, const float* __restrict source,
                  std::size_t count) noexcept {
  for_each_index(
      count, [=](std::size_t i) LOCKSTEP_KERNEL_LAMBDA { target[i] = Format::encode(source[i]); });
}
template <class Format>
void decode_array(float* __restrict target, const std::uint16_t* __restrict source,
                  std::size_t count) noexcept {
  for_each_index(
      count, [=](std::size_t i) LOCKSTEP_KERNEL_LAMBDA { target[i] = Format::decode(source[i]); });
}
template <class Format>
void decode_add_array(float* __restrict target, const std::uint16_t* __restrict source,
                      std::size_t count) noexcept {
  for_each_index(count, [=](std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
    target[i] = Format::decode(source[i]) + target[i];
  });
}
template <class Format>
void round_array(float* values, std::size_t count) noexcept {
  for_each_index(count, [=](std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
    values[i] = Format::decode(Format::encode(values[i]));
  });
}

/// What `rounded` lacks of `value`. (Where a half has no such number, it cannot be made up for.)
LOCKSTEP_KERNEL float rounded_off(float value, float rounded) noexcept {
  const float rest = value - rounded;
  return rest - rest == 0 ? rest : 0;
}

template <class Format>
void encode_array(std::uint16_t* __restrict target, const float* __restrict source,
                  float* __restrict residuals, std::size_t count) noexcept {
  for_each_index(count, [=](std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
    target[i] = Format::encode(source[i]);
    residuals[i] = rounded_off(source[i], Format::decode(target[i]));
  });
}
template <class Format>
void round_array(float* __restrict values, float* __restrict residuals,
                 std::size_t count) noexcept {
  for_each_index(count, [=](std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
    const float rounded = Format::decode(Format::encode(values[i]));
    residuals[i] = rounded_off(values[i], rounded);
    values[i] = rounded;
  });
}

LOCKSTEP_INLINE void encode(Wire wire, std::uint16_t* target, const float* source, float* residuals,
                            std::size_t count) noexcept {
  wire == Wire::bfloat16 ? encode_array<Bfloat16>(target, source, residuals, count)
                         : encode_array<Float16>(target, source, residuals, count);
}
LOCKSTEP_INLINE void round_to_wire(Wire wire, float* values, float* residuals,
                                   std::size_t count) noexcept {
  wire == Wire::bfloat16 ? round_array<Bfloat16>(values, residuals, count)
                         : round_array<Float16>(values, residuals, count);
}
LOCKSTEP_INLINE void add_residuals(float* values, const float* residuals,
                                   std::size_t count) noexcept {
  for_each_index(count, [=](std::size_t i) LOCKSTEP_KERNEL_LAMBDA { values[i] += residuals[i]; });
}

LOCKSTEP_INLINE void encode(Wire wire, std::uint16_t* target, const float* source,
                            std::size_t count) noexcept {
  wire == Wire::bfloat16 ? encode_array<Bfloat16>(target, source, count)
                         : encode_array<Float16>(target, source, count);
}
LOCKSTEP_INLINE void decode(Wire wire, float* target, const std::uint16_t* source,
                            std::size_t count) noexcept {
  wire == Wire::bfloat16 ? decode_array<Bfloat16>(target, source, count)
                         : decode_array<Float16>(target, source, count);
}
LOCKSTEP_INLINE void decode_add(Wire wire, float* target, const std::uint16_t* source,
                                std::size_t count) noexcept {
  wire == Wire::bfloat16 ? decode_add_array<Bfloat16>(target, source, count)
                         : decode_add_array<Float16>(target, source, count);
}
LOCKSTEP_INLINE void round_to_wire(Wire wire, float* values, std::size_t count) noexcept {
  wire == Wire::bfloat16 ? round_array<Bfloat16>(values, count)
                         : round_array<Float16>(values, count);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

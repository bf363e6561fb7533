// RankArrays of float as 16-bit numbers, and back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/collectives/wire.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

// `wire` is not Wire::native.

/// target[i] = encoded source[i].
void encode(Wire wire, std::uint16_t* target, const float* source, std::size_t count) noexcept;
/// target[i] = decoded source[i].
void decode(Wire wire, float* target, const std::uint16_t* source, std::size_t count) noexcept;
/// target[i] = decoded source[i] + target[i].
void decode_add(Wire wire, float* target, const std::uint16_t* source, std::size_t count) noexcept;
/// values[i] = what the others will decode.
void round_to_wire(Wire wire, float* values, std::size_t count) noexcept;

// With error feedback: residuals[i] = what is rounded off, 0 where that is not finite.

void encode(Wire wire, std::uint16_t* target, const float* source, float* residuals,
            std::size_t count) noexcept;
void round_to_wire(Wire wire, float* values, float* residuals, std::size_t count) noexcept;
/// values[i] = values[i] + residuals[i].
void add_residuals(float* values, const float* residuals, std::size_t count) noexcept;

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/reduction/halves.ipp"
#endif

// The bytes of a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The version of the file format that this library writes.
inline constexpr std::uint32_t checkpoint_format_version = 1;

/// Envelope (magic "LOCKSTEP", format version, size and CRC-32C of what follows, all little-endian) and the state, by cereal.
[[nodiscard]] std::vector<std::byte> encode_checkpoint(const TrainingState& state);

/// Throws DataError when the bytes are no checkpoint, of a newer format version, cut off, or damaged. Sizes are checked
/// against what is there before memory is taken for them.
[[nodiscard]] TrainingState decode_checkpoint(std::span<const std::byte> bytes);

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/checkpoint/archive.ipp"
#endif

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
inline constexpr std::uint32_t checkpoint_format_version = 2;

/// The file, all numbers little-endian:
///
/// | bytes | |
/// |---|---|
/// | 8 | "LOCKSTEP" |
/// | 4 | format version |
/// | 8, 8 | bytes of the manifest, and of the data |
/// | 4 | CRC-32C of the manifest |
/// | 4 | CRC-32C of what stands before |
/// | | the manifest, by cereal: all of the state but the elements of arrays; of each array its name, scalar type, extents, bytes and their CRC-32C |
/// | | the data: the elements of one array after the other |
///
/// The bytes are the only copy that is made of the data.
[[nodiscard]] std::vector<std::byte> encode_checkpoint(const TrainingState& state);

/// Reads every format version up to this one. Throws DataError when the bytes are no checkpoint, of a newer version, cut off, or
/// damaged in any bit. Sizes are checked against what is there before memory is taken for them.
[[nodiscard]] TrainingState decode_checkpoint(std::span<const std::byte> bytes);

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/checkpoint/archive.ipp"
#endif

// The bytes of a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The file, all numbers little-endian:
///
/// | bytes | |
/// |---|---|
/// | 8 | "LOCKSTEP" |
/// | 4 | format version |
/// | 8, 8 | bytes of the manifest, and of the data |
/// | 4 | CRC-32C of the manifest |
/// | 4 | CRC-32C of what stands before |
/// | | the manifest, by cereal: the sections, and of each array all but its elements |
/// | | the data: the elements of one array after the other |
///
/// A section is its name and a list of records (see State); a reader skips sections and entries
/// whose names it does not know. An array is its name, scalar type, extents, bytes and their
/// CRC-32C.
///
/// To write it, EncodedCheckpoint does without this copy of the data.
[[nodiscard]] std::vector<std::byte> encode_checkpoint(const TrainingState& state);

/// The same bytes without a copy of the data: this object holds header and manifest, and refers to
/// the arrays of the state, which must outlive it unchanged.
class EncodedCheckpoint {
 public:
  explicit EncodedCheckpoint(const TrainingState& state);
  explicit EncodedCheckpoint(TrainingState&&) = delete;

  /// Refers to this object and to the state.
  [[nodiscard]] ByteParts parts() const;

 private:
  std::vector<std::byte> head_;
  const TrainingState& state_;
};

/// Throws DataError when the bytes are no checkpoint, of another version, cut off, or damaged in
/// any bit, or when a number is out of its range (see check_ranges). Sizes are checked against the
/// file before memory is allocated for them.
[[nodiscard]] TrainingState decode_checkpoint(std::span<const std::byte> bytes);

/// For read_file: refuses a file that does not begin like a checkpoint, has another version, or
/// differs in size from its header. `expected`: the bytes of all arrays of the model that will take
/// the state; a file with far more is refused too.
/// @code
/// const auto bytes = read_file(path, checkpoint_check());
/// @endcode
[[nodiscard]] HeadCheck checkpoint_check(std::optional<std::uint64_t> expected = {});

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/checkpoint/archive.ipp"
#endif

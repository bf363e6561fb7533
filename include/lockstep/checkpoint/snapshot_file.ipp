#pragma once

#include <utility>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/snapshot_file.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE void save_snapshot(const std::string& path, const TrainingState& snapshot,
                                   FormerFile former) {
  const EncodedCheckpoint encoded(snapshot);
  former == FormerFile::kept ? write_file_keeping_previous(path, encoded.parts())
                             : write_file_atomically(path, encoded.parts());
}

LOCKSTEP_INLINE std::optional<SnapshotFile> read_snapshot(const std::string& path,
                                                          std::optional<std::uint64_t> expected) {
  auto bytes = read_file(path, checkpoint_check(expected));
  if (!bytes) return std::nullopt;
  TrainingState snapshot = decode_checkpoint(*bytes);
  return SnapshotFile{.bytes = std::move(*bytes), .snapshot = std::move(snapshot)};
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#pragma once

#include <utility>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/snapshot.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

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

LOCKSTEP_INLINE std::optional<detail::NewestSnapshot> detail::read_newest_snapshot(
    const std::string& path, std::optional<std::uint64_t> expected, std::string_view what,
    std::string_view remedy) {
  std::string failures;
  for (const std::string& file : {path, previous_generation(path)}) {
    try {
      auto found = read_snapshot(file, expected);
      if (!found) continue;
      if (!failures.empty())
        log_warning(concat({what, ": ", failures, "; going on from the backup before it"}));
      return NewestSnapshot{.file = std::move(*found), .path = file, .is_newest = failures.empty()};
    } catch (const Error& error) {
      failures += concat({failures.empty() ? "" : "; ", in_quotes(file), ": ", error.what()});
    }
  }
  if (failures.empty()) return std::nullopt;
  throw DataError(concat({what, ": ", failures, "; ", remedy}));
}

}}  // namespace lockstep

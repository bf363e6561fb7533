// Files of a whole training state: the one way in which all that save one write it and read it
// back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What becomes of the file that a new one replaces.
enum class FormerFile {
  removed,
  kept,  ///< as previous_generation(path)
};

/// Writes a snapshot to `path` as write_file_atomically does: whole or not at all. Throws Error
/// naming the path; the former file then stays.
void save_snapshot(const std::string& path, const TrainingState& snapshot,
                   FormerFile former = FormerFile::removed);

/// A file that was read, and what it holds.
struct SnapshotFile {
  std::vector<std::byte> bytes;  ///< for the other workers
  TrainingState snapshot;
};

/// Reads a snapshot for a model whose arrays have `expected` bytes; nothing when there is no such
/// file. Throws DataError when it is damaged or belongs to a far larger model, and Error naming the
/// path when it cannot be read.
[[nodiscard]] std::optional<SnapshotFile> read_snapshot(const std::string& path,
                                                        std::optional<std::uint64_t> expected = {});

namespace detail {

struct NewestSnapshot {
  SnapshotFile file;
  std::string path;
  bool is_newest = true;  ///< else the newer file is of no use, and not worth keeping
};

/// Reads the newer of a file and its previous_generation that can be read, with a warning when it
/// is the older one; nothing when there is neither. Throws DataError naming the files when none can
/// be read. `what`: who reads; `remedy`: what to do then.
[[nodiscard]] std::optional<NewestSnapshot> read_newest_snapshot(
    const std::string& path, std::optional<std::uint64_t> expected, std::string_view what,
    std::string_view remedy);

}  // namespace detail
}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/checkpoint/snapshot.ipp"
#endif

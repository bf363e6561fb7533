// Follows a folder into which another process writes checkpoints.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/checkpoint_folder.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Finds each checkpoint of a folder once, and again when it is replaced under its name. These are
/// the files in the folder's index (see CheckpointFolder) or, without an index, all files that
/// begin as checkpoints do (ModelCheckpoint's), in the order in which they were written.
class CheckpointWatch {
 public:
  explicit CheckpointWatch(std::string directory);

  /// The oldest that was not found before; nothing when there is none, or no such folder yet.
  /// Passes over those that are damaged, or deleted meanwhile, or too large for a model whose
  /// arrays have `expected` bytes, with a warning. Throws Error naming the path when the index
  /// cannot be read.
  [[nodiscard]] std::optional<FoundCheckpoint> next(std::optional<std::uint64_t> expected = {});

 private:
  /// Differs for every file that is put under a name.
  struct Version {
    std::uint64_t inode = 0;
    std::int64_t size = -1;  // no such file
    std::int64_t nanoseconds = 0;

    friend bool operator==(const Version&, const Version&) = default;
  };

  [[nodiscard]] static Version version_of(const std::string& path);
  [[nodiscard]] std::vector<std::string> paths() const;

  std::string directory_;
  std::map<std::string, Version> found_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/checkpoint/checkpoint_watch.ipp"
#endif

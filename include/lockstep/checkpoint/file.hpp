// Files that are written whole or not at all.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/checkpoint/byte_parts.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Writes to a temporary file beside `path`, syncs it to the disk, renames it, and syncs the folder: a reader sees the old file or
/// the new one, also after a crash. Makes missing parent folders. Throws Error naming the path; the old file then stays.
void write_file_atomically(const std::string& path, const ByteParts& bytes);

/// Removes what killed processes have left of unfinished writes to `path`: the temporary files beside it that no live process
/// holds. Ignores what cannot be removed.
void remove_stale_temporaries(const std::string& path);

/// The bytes of a file, or nothing when there is none. Throws Error naming the path when it cannot be read.
[[nodiscard]] std::optional<std::vector<std::byte>> read_file(const std::string& path);

/// Removes a file, if there is one. Throws Error naming the path.
void remove_file(const std::string& path);

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/checkpoint/file.ipp"
#endif

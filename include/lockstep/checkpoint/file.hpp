// Files that are written whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/byte_parts.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Writes to a temporary file beside `path`, syncs it to the disk, renames it, and syncs the
/// folder: a reader sees the old file or the new one, also after a crash. Makes missing parent
/// folders. If the path is a symbolic link, the file that it leads to is replaced. Only a regular
/// file is ever replaced: a character device (/dev/null) is written to, and a folder, FIFO or
/// socket is refused. Throws Error naming the path; the old file then stays.
void write_file_atomically(const std::string& path, const ByteParts& bytes);

/// The same, but the former file is kept as previous_generation(path). At any moment, even after a
/// crash, at least one of the two exists and is complete.
void write_file_keeping_previous(const std::string& path, const ByteParts& bytes);

/// Where write_file_keeping_previous keeps the former file.
[[nodiscard]] std::string previous_generation(const std::string& path);

/// Removes what killed processes have left of unfinished writes to `path`: the temporary files
/// beside it that no live process holds. Ignores what cannot be removed.
void remove_stale_temporaries(const std::string& path);

/// Checks the size of a file and its first checked_head bytes (or all, if it has fewer) before
/// memory is allocated for the rest. Throws DataError, which says why the file is refused.
using HeadCheck = std::function<void(std::span<const std::byte> head, std::uint64_t size)>;
inline constexpr std::size_t checked_head = 64;

/// Refuses files of more than `most` bytes; `what` is what they are expected to be.
[[nodiscard]] HeadCheck at_most(std::uint64_t most, std::string_view what);

/// The bytes of a file, or nothing when there is none. Throws Error naming the path when it cannot
/// be read, or is no regular file (it does not wait for a FIFO), and whatever `check` throws.
[[nodiscard]] std::optional<std::vector<std::byte>> read_file(const std::string& path,
                                                              const HeadCheck& check = {});

/// Removes a file, if there is one. Throws Error naming the path.
void remove_file(const std::string& path);

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/checkpoint/file.ipp"
#endif

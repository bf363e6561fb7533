// What stands at a path, before something is read or written there.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What a path that is no regular file is: "a folder", for example.
[[nodiscard]] inline const char* file_kind(mode_t mode) noexcept {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "something else";
}

/// The path at which the symbolic links that begin at `path` end: `path` itself if it is no link.
/// The result need not exist. Throws Error when there are more than 40 links.
[[nodiscard]] inline std::filesystem::path end_of_links(const std::filesystem::path& path) {
  std::filesystem::path target = path;
  for (int links = 0; links <= 40; ++links) {
    std::error_code none;
    const std::filesystem::path next = std::filesystem::read_symlink(target, none);
    if (none) return target;
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  throw Error("cannot follow '" + path.string() + "': there are more than 40 symbolic links");
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/file_writer.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_INLINE void write_file_atomically(const std::string& path, const ByteParts& bytes) {
  detail::write_file_through(detail::FileCalls{}, path, bytes);
}

// Not by the process id in the name: another container or machine may have that process.
LOCKSTEP_INLINE void remove_stale_temporaries(const std::string& path) {
  const std::string prefix = std::filesystem::path(path).filename().string() + detail::temporary_suffix;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(detail::folder_of(path), error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(prefix)) continue;
    const detail::File<> file(entry->path().string(), O_RDWR | O_NOFOLLOW);
    if (file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(entry->path().c_str());
  }
}

LOCKSTEP_INLINE std::optional<std::vector<std::byte>> read_file(const std::string& path) {
  const detail::File<> file(path, O_RDONLY);
  if (!file.is_open()) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    detail::throw_file_error("cannot open", path);
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) detail::throw_file_error("cannot stat", path);
  if (!S_ISREG(status.st_mode)) throw Error("cannot read '" + path + "': it is no regular file");
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) detail::throw_file_error("cannot read", path);
    if (got == 0) throw Error("cannot read '" + path + "': it became shorter while it was read");
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

LOCKSTEP_INLINE void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR)
    detail::throw_file_error("cannot remove", path);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/file_writer.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE void write_file_atomically(const std::string& path, const ByteParts& bytes) {
  detail::write_file_through(detail::FileCalls{}, path, bytes);
}

LOCKSTEP_INLINE void write_file_keeping_previous(const std::string& path, const ByteParts& bytes) {
  detail::write_file_through(detail::FileCalls{}, path, bytes, detail::KeepPrevious::yes);
}

LOCKSTEP_INLINE std::string previous_generation(const std::string& path) {
  return detail::end_of_links(path).string() + detail::previous_suffix;
}

LOCKSTEP_INLINE void remove_stale_temporaries(const std::string& path) {
  const std::filesystem::path target = detail::end_of_links(path);
  const std::string base = target.filename().string();
  std::error_code error;
  for (std::filesystem::directory_iterator entry(detail::folder_of(target), error), end;
       !error && entry != end; entry.increment(error)) {
    if (!detail::is_temporary_of(base, entry->path().filename().string())) continue;
    const detail::File<> file(entry->path().string(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    struct stat status {};
    if (!file.is_open() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(entry->path().c_str());
  }
}

LOCKSTEP_INLINE HeadCheck at_most(std::uint64_t most, std::string_view what) {
  return [most, what = std::string(what)](std::span<const std::byte>, std::uint64_t size) {
    if (size > most)
      throw DataError(
          concat({"the file has ", size, " bytes, and at most ", most, " are expected of ", what}));
  };
}

LOCKSTEP_INLINE std::optional<std::vector<std::byte>> read_file(const std::string& path,
                                                                const HeadCheck& check) {
  const detail::File<> file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file.is_open()) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    detail::throw_file_error("cannot open", path);
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) detail::throw_file_error("cannot stat", path);
  if (!S_ISREG(status.st_mode))
    throw Error("cannot read " + in_quotes(path) + ": it is no regular file but " +
                detail::file_kind(status.st_mode));
  const auto size = static_cast<std::uint64_t>(status.st_size);
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(std::min<std::uint64_t>(size, checked_head)));
  detail::read_all(file, path, bytes);
  if (check) check(bytes, size);
  const std::size_t done = bytes.size();
  bytes.resize(static_cast<std::size_t>(size));
  detail::read_all(file, path, std::span(bytes).subspan(done));
  return bytes;
}

LOCKSTEP_INLINE void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR)
    detail::throw_file_error("cannot remove", path);
}

}}  // namespace lockstep

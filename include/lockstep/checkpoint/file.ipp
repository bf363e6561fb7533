#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

[[noreturn]] inline void throw_file_error(const char* what, const std::string& path) {
  const int code = errno;
  throw Error(std::string(what) + " '" + path + "': " + std::strerror(code));
}

/// A file descriptor that is closed at the end of its scope.
class File {
 public:
  File(const std::string& path, int flags) : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] int get() const noexcept { return descriptor_; }
  [[nodiscard]] bool is_open() const noexcept { return descriptor_ >= 0; }
  /// False when the last write failed late (full or remote disks say so here).
  [[nodiscard]] bool close() noexcept { return ::close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

inline bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace detail

LOCKSTEP_INLINE void write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
  const std::filesystem::path target(path);
  const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error("cannot make the folder '" + folder.string() + "': " + error.message());

  const std::string temporary = path + ".tmp." + std::to_string(::getpid());
  const auto fail = [&](const char* what) {
    const int code = errno;
    ::unlink(temporary.c_str());
    errno = code;
    detail::throw_file_error(what, temporary);
  };
  detail::File file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file.is_open()) detail::throw_file_error("cannot create", temporary);
  if (!detail::write_all(file.get(), bytes)) fail("cannot write");
  if (::fsync(file.get()) != 0) fail("cannot sync");
  if (!file.close()) fail("cannot close");
  if (::rename(temporary.c_str(), path.c_str()) != 0) fail("cannot rename");
  const detail::File directory(folder.string(), O_RDONLY | O_DIRECTORY);
  if (!directory.is_open() || ::fsync(directory.get()) != 0)
    detail::throw_file_error("cannot sync the folder", folder.string());
}

LOCKSTEP_INLINE std::optional<std::vector<std::byte>> read_file(const std::string& path) {
  const detail::File file(path, O_RDONLY);
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
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) detail::throw_file_error("cannot remove", path);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

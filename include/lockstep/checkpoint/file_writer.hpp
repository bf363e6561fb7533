// Writing a file, system call by system call.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "lockstep/checkpoint/byte_parts.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/resource_limits.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

[[noreturn]] inline void throw_file_error(const char* what, const std::string& path) {
  const int code = errno;
  throw Error(std::string(what) + " '" + path + "': " + std::strerror(code) +
              (code == EFBIG ? limits_text(Resource::file_size) : ""));
}

/// The system calls that write a file. A test puts a class with the same functions in its place, whose calls fail.
struct FileCalls {
  int open(const char* path, int flags) { return ::open(path, flags | O_CLOEXEC, 0666); }
  ssize_t write(int descriptor, const void* bytes, std::size_t size) { return ::write(descriptor, bytes, size); }
  int fsync(int descriptor) { return ::fsync(descriptor); }
  int close(int descriptor) { return ::close(descriptor); }
  int rename(const char* from, const char* to) { return ::rename(from, to); }
  int unlink(const char* path) { return ::unlink(path); }
};

/// A file descriptor that is closed at the end of its scope.
template <class Calls = FileCalls>
class File {
 public:
  File(const std::string& path, int flags, Calls calls = {})
      : calls_(calls), descriptor_(calls_.open(path.c_str(), flags)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) calls_.close(descriptor_);
  }
  [[nodiscard]] int get() const noexcept { return descriptor_; }
  [[nodiscard]] bool is_open() const noexcept { return descriptor_ >= 0; }
  /// False when the last write failed late (full or remote disks say so here).
  [[nodiscard]] bool close() { return calls_.close(std::exchange(descriptor_, -1)) == 0; }

 private:
  Calls calls_;
  int descriptor_;
};

template <class Calls>
bool write_all(Calls& calls, int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = calls.write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

inline std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

inline constexpr const char* temporary_suffix = ".tmp.";  // and the writer's process id

template <class Calls>
void write_file_through(Calls calls, const std::string& path, const ByteParts& bytes) {
  const std::filesystem::path folder = folder_of(path);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error("cannot make the folder '" + folder.string() + "': " + error.message());

  const std::string temporary = path + temporary_suffix + std::to_string(::getpid());
  const auto fail = [&](const char* what) {
    const int code = errno;
    calls.unlink(temporary.c_str());
    errno = code;
    throw_file_error(what, temporary);
  };
  File<Calls> file(temporary, O_WRONLY | O_CREAT | O_TRUNC, calls);
  if (!file.is_open()) throw_file_error("cannot create", temporary);
  ::flock(file.get(), LOCK_EX | LOCK_NB);  // while it lives, remove_stale_temporaries leaves the file alone
  for (const std::span<const std::byte> part : bytes)
    if (!write_all(calls, file.get(), part)) fail("cannot write");
  if (calls.fsync(file.get()) != 0) fail("cannot sync");
  if (!file.close()) fail("cannot close");
  if (calls.rename(temporary.c_str(), path.c_str()) != 0) fail("cannot rename");
  const File<Calls> directory(folder.string(), O_RDONLY | O_DIRECTORY, calls);
  if (!directory.is_open() || calls.fsync(directory.get()) != 0)
    throw_file_error("cannot sync the folder", folder.string());
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

// Writes a file system call by system call, and says what kind of file stands in its place.
#pragma once

#include <fcntl.h>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include <sys/file.h>
#include <sys/stat.h>
#include <filesystem>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>

#include <unistd.h>
#include <system_error>

#include <utility>

#include "lockstep/checkpoint/byte_parts.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

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
  throw Error("cannot follow " + in_quotes(path.string()) +
              ": there are more than 40 symbolic links");
}

[[noreturn]] inline void throw_file_error(const char* what, const std::string& path) {
  const int code = errno;
  throw Error(std::string(what) + " " + in_quotes(path) + ": " + std::strerror(code) +
              (code == EFBIG ? limits_text(Resource::file_size) : ""));
}

/// The system calls that write a file. A test puts a class with the same functions in its place,
/// whose calls fail.
struct FileCalls {
  int open(const char* path, int flags) { return ::open(path, flags | O_CLOEXEC, 0666); }
  ssize_t write(int descriptor, const void* bytes, std::size_t size) {
    return ::write(descriptor, bytes, size);
  }
  int fsync(int descriptor) { return ::fsync(descriptor); }
  int close(int descriptor) { return ::close(descriptor); }
  int rename(const char* from, const char* to) { return ::rename(from, to); }
  int link(const char* from, const char* to) { return ::link(from, to); }
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

inline constexpr const char* temporary_suffix = ".tmp.";  // and random digits
inline constexpr const char* previous_suffix = ".previous";

/// Whether this is the name of a temporary file beside a file named `base`. (An earlier version of
/// the library put its process id where the random digits are.)
[[nodiscard]] inline bool is_temporary_of(std::string_view base, std::string_view name) noexcept {
  const std::string_view suffix = temporary_suffix;
  if (!name.starts_with(base) || !name.substr(base.size()).starts_with(suffix)) return false;
  const std::string_view digits = name.substr(base.size() + suffix.size());
  return !digits.empty() && digits.size() <= 16 &&
         digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

inline std::string random_digits() {
  std::random_device random;
  return hex_text(random(), 8) + hex_text(random(), 8);
}

/// Keeps remove_stale_temporaries away from a new file for as long as it is open. False when that
/// function was faster. (On a file system without locks nothing is kept away.)
inline bool hold_temporary(int descriptor) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  struct stat status {};
  return ::fstat(descriptor, &status) != 0 || status.st_nlink > 0;
}

/// A new file beside `target`, which no other process has (not even one with the same process id in
/// another container), and which is no symbolic link that was put there.
template <class Calls>
class TemporaryFile {
 public:
  TemporaryFile(const std::filesystem::path& target, Calls calls) {
    constexpr int most_attempts = 100;
    for (int attempt = 1;; ++attempt) {
      path_ = target.string() + temporary_suffix + random_digits();
      file_.emplace(path_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, calls);
      if (!file_->is_open() && (errno != EEXIST || attempt == most_attempts))
        throw_file_error("cannot create", path_);
      if (file_->is_open() && hold_temporary(file_->get())) return;
    }
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] File<Calls>& file() noexcept { return *file_; }

 private:
  std::string path_;
  std::optional<File<Calls>> file_;
};

/// Writes to whatever is at the path, as the shell's > does.
template <class Calls>
void write_to_device(Calls calls, const std::string& path, const ByteParts& bytes) {
  File<Calls> file(path, O_WRONLY | O_NOCTTY, calls);
  if (!file.is_open()) throw_file_error("cannot open", path);
  for (const std::span<const std::byte> part : bytes)
    if (!write_all(calls, file.get(), part)) throw_file_error("cannot write", path);
  if (!file.close()) throw_file_error("cannot close", path);
}

/// Gives the file `target`, if it exists, the name `previous` as well; on a file system without
/// hard links, instead. At any moment one of the two exists. False, with errno, when that fails.
template <class Calls>
bool keep_previous(Calls& calls, const std::string& target, const std::string& previous) {
  if (calls.link(target.c_str(), previous.c_str()) == 0 || errno == ENOENT) return true;
  if (errno == EEXIST && calls.unlink(previous.c_str()) == 0 &&
      calls.link(target.c_str(), previous.c_str()) == 0)
    return true;
  return calls.rename(target.c_str(), previous.c_str()) == 0;
}

enum class KeepPrevious { no, yes };

template <class Calls>
void write_file_through(Calls calls, const std::string& path, const ByteParts& bytes,
                        KeepPrevious keep = KeepPrevious::no) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    if (S_ISCHR(status.st_mode)) return write_to_device(calls, path, bytes);
    throw Error("cannot write " + in_quotes(path) + ": it is no regular file but " +
                file_kind(status.st_mode) + ": name another path");
  }
  const std::filesystem::path target = end_of_links(path);
  const std::filesystem::path folder = folder_of(target);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error("cannot make the folder " + in_quotes(folder.string()) + ": " + error.message());

  TemporaryFile<Calls> temporary(target, calls);
  const auto fail = [&](const char* what) {
    const int code = errno;
    calls.unlink(temporary.path().c_str());
    errno = code;
    throw_file_error(what, temporary.path());
  };
  File<Calls>& file = temporary.file();
  for (const std::span<const std::byte> part : bytes)
    if (!write_all(calls, file.get(), part)) fail("cannot write");
  if (calls.fsync(file.get()) != 0) fail("cannot sync");
  if (!file.close()) fail("cannot close");
  if (keep == KeepPrevious::yes &&
      !keep_previous(calls, target.string(), target.string() + previous_suffix))
    fail("cannot keep the former file");
  if (calls.rename(temporary.path().c_str(), target.c_str()) != 0) fail("cannot rename");
  const File<Calls> directory(folder.string(), O_RDONLY | O_DIRECTORY, calls);
  if (!directory.is_open() || calls.fsync(directory.get()) != 0)
    throw_file_error("cannot sync the folder", folder.string());
}

/// Reads until `bytes` is full. Throws Error naming the path.
inline void read_all(const File<>& file, const std::string& path, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::read(file.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_error("cannot read", path);
    if (got == 0)
      throw Error("cannot read " + in_quotes(path) + ": it became shorter while it was read");
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

}}}  // namespace lockstep::detail

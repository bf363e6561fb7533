#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/file_lock.hpp"
#include "lockstep/checkpoint/file_writer.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE FileLock::FileLock(std::string path, std::string_view what,
                                   std::chrono::milliseconds patience)
    : path_(std::move(path)) {
  using Clock = std::chrono::steady_clock;
  const std::filesystem::path folder = folder_of(path_);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error("cannot make the folder " + in_quotes(folder.string()) + ": " + error.message());
  const auto deadline = Clock::now() + patience;
  while (!try_lock()) {
    if (Clock::now() >= deadline)
      throw ConfigurationError(
          concat({what, " is in use by another job (", owner(),
                  "): give each job a folder of its own, or end that one first"}));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  write_owner();
}

LOCKSTEP_INLINE FileLock::~FileLock() {
  if (is_at_path()) ::unlink(path_.c_str());  // while it is still held
  ::close(descriptor_);
}

/// Whether this object has the lock now. An owner that ends removes the file, and a lock on a
/// removed file is worth nothing.
LOCKSTEP_INLINE bool FileLock::try_lock() {
  const int descriptor = ::open(
      path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
  if (descriptor < 0) throw_file_error("cannot open the lock", path_);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    throw Error("cannot lock " + in_quotes(path_) + ": it is no regular file but " +
                file_kind(status.st_mode));
  }
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK || errno == EINTR) {
      ::close(descriptor);
      return false;
    }
    log_warning(in_quotes(path_) + " cannot be locked: nothing keeps another job from this folder");
  }
  descriptor_ = descriptor;
  if (is_at_path()) return true;
  ::close(std::exchange(descriptor_, -1));
  return false;
}

LOCKSTEP_INLINE bool FileLock::is_at_path() const {
  struct stat mine {
  }, there{};
  return descriptor_ >= 0 && ::fstat(descriptor_, &mine) == 0 &&
         ::lstat(path_.c_str(), &there) == 0 && mine.st_dev == there.st_dev &&
         mine.st_ino == there.st_ino;
}

LOCKSTEP_INLINE void FileLock::write_owner() const {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 64> since{};
  std::strftime(since.data(), since.size(), "%Y-%m-%d %H:%M:%S UTC", &utc);
  const std::string text =
      concat({"process ", ::getpid(), " on ", host.data(), " since ", since.data(), "\n"});
  // The lock is held even if the owner's name cannot be written.
  if (::ftruncate(descriptor_, 0) == 0) (void)!::pwrite(descriptor_, text.data(), text.size(), 0);
}

LOCKSTEP_INLINE std::string FileLock::owner() const {
  std::array<char, 400> text{};
  const File<> file(path_, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  const ssize_t got = file.is_open() ? ::read(file.get(), text.data(), text.size()) : 0;
  std::string line(text.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  line.resize(std::min(line.find('\n'), line.size()));
  for (char& c : line)
    if (c < ' ' || c > '~') c = '?';
  return line.empty() ? "which has not said yet what it is" : line;
}

}}}  // namespace lockstep::detail

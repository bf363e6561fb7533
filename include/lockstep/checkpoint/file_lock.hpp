// FileLock: keeps a folder or a file for one job at a time.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A lock file, which names its owner, held for the life of this object. The system releases it
/// when the process ends, however that happens: the file that a killed process leaves behind is no
/// obstacle. (It uses flock, which NFS passes on to its server; there, a machine that is gone keeps
/// its locks until the server notices.)
class FileLock {
 public:
  /// Takes the lock; makes missing folders. Waits for at most `patience` while another process
  /// holds it, because that process may be about to end; then throws ConfigurationError with
  /// `what`, the owner and a remedy. Throws Error naming the path when the file cannot be made. On
  /// a file system without locks nothing is locked, and a warning says so.
  FileLock(std::string path, std::string_view what,
           std::chrono::milliseconds patience = std::chrono::milliseconds(1000));
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  /// Removes the file.
  ~FileLock();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  [[nodiscard]] bool try_lock();
  [[nodiscard]] bool is_at_path() const;
  void write_owner() const;
  [[nodiscard]] std::string owner() const;

  std::string path_;
  int descriptor_ = -1;
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/checkpoint/file_lock.ipp"
#endif

// FileLock: what only one job at a time may use.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A lock file, which names its owner, held for the life of this object. The system gives it back when the process ends, however that
/// happens: what a killed process has left of it is no obstacle. (By flock, which NFS passes on to its server; there, a machine that
/// is gone keeps its locks until the server notices.)
class FileLock {
 public:
  /// Takes the lock; makes missing folders. Waits for at most `patience` while another one holds it, because that may be about to end;
  /// then throws ConfigurationError with `what`, the owner and a remedy. Throws Error naming the path when the file cannot be made.
  /// Where a file system has no locks, nothing is locked, which is a warning.
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/checkpoint/file_lock.ipp"
#endif

// A file that grows at its end: logs and records.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Appends to a file through a buffer. All but the destructor throw Error naming the
/// file. One thread at a time.
class GrowingFile {
 public:
  /// Opens the file and keeps what it has; makes it, and missing parent folders.
  explicit GrowingFile(std::string path);
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;
  /// Writes what is in the buffer, if it can be written.
  ~GrowingFile();

  void write(std::string_view bytes);
  /// Hands everything to the operating system: a process that is killed later loses none of it.
  void flush();
  /// Throws away what follows the first `size` bytes. (A device or a pipe stays as it is.)
  void truncate(std::uint64_t size);
  /// Flushes and closes; a full disk may be noticed here. Nothing else may be called after it.
  void close();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Bytes in the file, and those in the buffer.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_ + buffer_.size(); }

 private:
  [[noreturn]] void fail(std::string_view what) const;

  std::string path_;
  int descriptor_;
  std::uint64_t size_ = 0;
  std::string buffer_;
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/checkpoint/growing_file.ipp"
#endif

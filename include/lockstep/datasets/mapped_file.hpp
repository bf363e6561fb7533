// Files that are read through memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The bytes of a file, which the system reads when they are looked at and may forget again. The
/// file must not become shorter meanwhile. Any number of threads may read it.
class MappedFile {
 public:
  /// Throws DataError, beginning with `caller`, when the file cannot be read, or is not what its
  /// reader could read: a Git LFS pointer, or compressed (name.gz).
  MappedFile(std::string_view caller, std::string path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

 private:
  struct Unchecked {};
  MappedFile(std::string_view caller, std::string path, Unchecked);

  std::string path_;
  std::span<const std::byte> bytes_;
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/datasets/mapped_file.ipp"
#endif

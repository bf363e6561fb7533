#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/file_format.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/datasets/mapped_file.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

inline bool is_compressed_name(std::string_view path) {
  return path.ends_with(".gz") || path.ends_with(".bz2") || path.ends_with(".xz") ||
         path.ends_with(".zst");
}

LOCKSTEP_INLINE MappedFile::MappedFile(std::string_view caller, std::string path, Unchecked)
    : path_(std::move(path)) {
  const auto fail = [&](const char* what, int error) {
    throw DataError(concat({caller, ": ", path_, " cannot be ", what, ": ", std::strerror(error)}));
  };
  // (Without O_NONBLOCK, a named pipe would wait for a writer, and be refused only then.)
  const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) fail("opened", errno);
  struct ::stat status {};
  int error = ::fstat(file, &status) == 0 ? 0 : errno;
  if (error == 0 && !S_ISREG(status.st_mode)) error = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
  void* base = nullptr;
  if (error == 0 && status.st_size > 0) {
    base =
        ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    if (base == MAP_FAILED) error = errno;
  }
  ::close(file);
  if (error != 0) fail("read", error);
  bytes_ = {static_cast<const std::byte*>(base), static_cast<std::size_t>(status.st_size)};
}

LOCKSTEP_INLINE MappedFile::MappedFile(std::string_view caller, std::string path)
    : MappedFile(caller, std::move(path), Unchecked()) {
  const std::string format = known_format(text());
  // (Other binary files may begin like compressed ones.)
  const bool is_compressed = format.starts_with("compressed") && is_compressed_name(path_);
  if (is_compressed || format.starts_with("a Git LFS pointer"))
    throw DataError(concat({caller, ": ", path_, " is ", format}));
}

LOCKSTEP_INLINE MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}}}  // namespace lockstep::detail

#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/datasets/mapped_file.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE MappedFile::MappedFile(std::string_view caller, std::string path)
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

LOCKSTEP_INLINE MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

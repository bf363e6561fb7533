#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/collectives/host/shared_segment.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

#if LOCKSTEP_LINUX
/// Hardened systems add other seals.
LOCKSTEP_INLINE bool is_sealed(int descriptor) {
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

LOCKSTEP_INLINE SharedSegment SharedSegment::create(std::size_t size, std::uint64_t cookie) {
  SharedSegment segment;
  segment.descriptor_ = Descriptor(::memfd_create("lockstep", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!segment.descriptor_.is_open())
    throw Error(concat({"cannot make shared memory: ", system_error_text(errno)}));
  segment.name_ = {.process = ::getpid(),
                   .descriptor = segment.descriptor_.get(),
                   .size = size,
                   .cookie = cookie};
  // No process can make it shorter under the feet of those that have mapped it.
  if (::ftruncate(segment.descriptor_.get(), static_cast<off_t>(header_bytes + size)) != 0 ||
      ::fcntl(segment.descriptor_.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    throw Error(concat({"cannot make ", size, " bytes of shared memory: ", std::strerror(errno)}));
  segment.map(segment.descriptor_.get());
  std::memcpy(segment.base_, &cookie, sizeof cookie);
  return segment;
}

LOCKSTEP_INLINE SharedSegment SharedSegment::open(const SegmentName& name) {
  const std::string path = concat({"/proc/", name.process, "/fd/", name.descriptor});
  const Descriptor descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!descriptor.is_open())
    throw Error(concat({"cannot open shared memory as ", path, ": ", system_error_text(errno)}));
  struct stat status {};
  SharedSegment segment;
  segment.name_ = name;
  // A file of another length, or not sealed, is not a segment: leave it alone.
  if (::fstat(descriptor.get(), &status) != 0 ||
      static_cast<std::uint64_t>(status.st_size) != header_bytes + name.size ||
      !is_sealed(descriptor.get()))
    throw Error(concat({path, " is not the shared memory that was announced"}));
  segment.map(descriptor.get());
  if (std::memcmp(segment.base_, &name.cookie, sizeof name.cookie) != 0)
    throw Error(concat({path, " is not the shared memory that was announced"}));
  return segment;
}

LOCKSTEP_INLINE void SharedSegment::map(int descriptor) {
  const std::size_t bytes = header_bytes + name_.size;
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (base == MAP_FAILED)
    throw Error(concat({"cannot map ", bytes, " bytes of shared memory: ", std::strerror(errno)}));
  base_ = static_cast<std::byte*>(base);
  (void)::madvise(base, bytes, MADV_HUGEPAGE);  // (a wish: it may be refused)
}

#else
// POSIX's shared memory has a name, which outlives a process that is killed.
LOCKSTEP_INLINE SharedSegment SharedSegment::create(std::size_t, std::uint64_t) {
  throw Error("processes share memory on Linux only (memfd_create)");
}
LOCKSTEP_INLINE SharedSegment SharedSegment::open(const SegmentName&) { return create(0, 0); }
LOCKSTEP_INLINE void SharedSegment::map(int) {}
#endif

LOCKSTEP_INLINE SharedSegment& SharedSegment::operator=(SharedSegment&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(name_, other.name_);
  return *this;
}

LOCKSTEP_INLINE SharedSegment::~SharedSegment() {
  if (base_ != nullptr) ::munmap(base_, header_bytes + name_.size);
  if (!descriptor_.is_open()) return;
#if LOCKSTEP_LINUX
  // Others may have it mapped for a while; the memory is given back now.
  const auto bytes = static_cast<off_t>(name_.size);
  (void)::fallocate(descriptor_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, header_bytes,
                    bytes);
#endif
}

}}}  // namespace lockstep::detail

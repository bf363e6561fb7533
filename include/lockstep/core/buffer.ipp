#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "lockstep/core/buffer.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE void ask_for_huge_pages([[maybe_unused]] std::byte* data,
                                        [[maybe_unused]] std::size_t size) noexcept {
#if defined(__linux__)
  const std::size_t before =
      (huge_page - reinterpret_cast<std::uintptr_t>(data) % huge_page) % huge_page;
  if (size >= before + huge_page)
    (void)::madvise(data + before, (size - before) / huge_page * huge_page, MADV_HUGEPAGE);
#endif
}

LOCKSTEP_INLINE Buffer::Buffer(std::size_t size) : size_(size), release_(&free_aligned) {
  if (size == 0) return;
  data_ = static_cast<std::byte*>(::operator new(size, alignment(size)));
  ask_for_huge_pages(data_, size);
  std::memset(data_, 0, size);
}

LOCKSTEP_INLINE Buffer& Buffer::operator=(Buffer&& other) noexcept {
  Buffer(std::move(other)).swap(*this);
  return *this;
}

LOCKSTEP_INLINE void Buffer::swap(Buffer& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(release_, other.release_);
  std::swap(context_, other.context_);
}

}}  // namespace lockstep

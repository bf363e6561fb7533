#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/system.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE void ask_for_huge_pages([[maybe_unused]] std::byte* data,
                                        [[maybe_unused]] std::size_t size) noexcept {
#if LOCKSTEP_LINUX
  const std::size_t before =
      (huge_page - reinterpret_cast<std::uintptr_t>(data) % huge_page) % huge_page;
  if (size >= before + huge_page)
    (void)::madvise(data + before, (size - before) / huge_page * huge_page, MADV_HUGEPAGE);
#endif
}

LOCKSTEP_INLINE void release_pages(std::byte* data, std::size_t size) noexcept {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t before = (page - reinterpret_cast<std::uintptr_t>(data) % page) % page;
  if (size < before + page) return;
#if LOCKSTEP_LINUX
  (void)::madvise(data + before, (size - before) / page * page, MADV_DONTNEED);
#else  // pages that are advised away need not be zeros
  (void)::mmap(data + before, (size - before) / page * page, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
#endif
}

LOCKSTEP_INLINE Buffer paged_buffer(std::size_t size) {
  if (size == 0) return {};
  void* const data =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
#if LOCKSTEP_LINUX
  (void)::madvise(data, size, MADV_NOHUGEPAGE);
#endif
  return {static_cast<std::byte*>(data), size,
          [](std::byte* bytes, std::size_t count, void*) { (void)::munmap(bytes, count); },
          nullptr};
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

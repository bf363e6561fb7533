// Aligned memory, on huge pages where it is large.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

inline constexpr std::size_t huge_page = std::size_t{2} << 20;

/// Asks for huge pages where untouched memory spans whole ones: one page fault instead of 512. Many
/// systems give them only on request. Does not ask for the parts at either end, which would cost
/// memory. The system may refuse.
void ask_for_huge_pages(std::byte* data, std::size_t size) noexcept;

/// Gives whole pages in these bytes of a paged_buffer() back to the system. They are zeros then,
/// and take memory again where they are written.
void release_pages(std::byte* data, std::size_t size) noexcept;

inline constexpr std::size_t cache_line = 64;

/// Owns a block of bytes, aligned to 64 bytes (2 MiB when it is that large, and then in huge pages
/// where the system has them), and zeroed. Its creator decides how it is released, so that a
/// collective can hand out shared or registered memory.
///
/// Threads may write different bytes of it at once.
class Buffer {
 public:
  using Release = void (*)(std::byte* data, std::size_t size, void* context);

  Buffer() noexcept = default;

  /// Allocates `size` zeroed bytes. Throws std::bad_alloc.
  explicit Buffer(std::size_t size);

  /// Takes over memory that the caller allocated.
  Buffer(std::byte* data, std::size_t size, Release release, void* context) noexcept
      : data_(data), size_(size), release_(release), context_(context) {}

  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() {
    if (data_ != nullptr) release_(data_, size_, context_);
  }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  void swap(Buffer& other) noexcept;

 private:
  static std::align_val_t alignment(std::size_t size) {
    return std::align_val_t{size >= huge_page ? huge_page : cache_line};
  }
  static void free_aligned(std::byte* data, std::size_t size, void*) {
    ::operator delete(data, alignment(size));
  }

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  Release release_ = nullptr;
  void* context_ = nullptr;
};

/// Zeros, aligned to a page, that take memory where they are written, page by page. Throws
/// std::bad_alloc.
[[nodiscard]] Buffer paged_buffer(std::size_t size);

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/core/buffer.ipp"
#endif

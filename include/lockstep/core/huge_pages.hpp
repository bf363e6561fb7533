// Large pages for large memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/core/config.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace lockstep::inline LOCKSTEP_ABI {

inline constexpr std::size_t huge_page = std::size_t{2} << 20;

/// Asks for huge pages where untouched memory spans whole ones: one page fault instead of 512. Many
/// systems give them only on request. Does not ask for the parts at either end, which would cost
/// memory. The system may refuse.
inline void ask_for_huge_pages([[maybe_unused]] std::byte* data,
                               [[maybe_unused]] std::size_t size) noexcept {
#if defined(__linux__)
  const std::size_t before =
      (huge_page - reinterpret_cast<std::uintptr_t>(data) % huge_page) % huge_page;
  if (size >= before + huge_page)
    (void)::madvise(data + before, (size - before) / huge_page * huge_page, MADV_HUGEPAGE);
#endif
}

}  // namespace lockstep::inline LOCKSTEP_ABI

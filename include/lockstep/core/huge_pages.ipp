#pragma once

#include <cstdint>

#include "lockstep/core/huge_pages.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE void ask_for_huge_pages([[maybe_unused]] std::byte* data,
                                        [[maybe_unused]] std::size_t size) noexcept {
#if defined(__linux__)
  const std::size_t before =
      (huge_page - reinterpret_cast<std::uintptr_t>(data) % huge_page) % huge_page;
  if (size >= before + huge_page)
    (void)::madvise(data + before, (size - before) / huge_page * huge_page, MADV_HUGEPAGE);
#endif
}

}  // namespace lockstep::inline LOCKSTEP_ABI

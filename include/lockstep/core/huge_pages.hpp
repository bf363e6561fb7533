// Large pages for large memory.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

inline constexpr std::size_t huge_page = std::size_t{2} << 20;

/// Asks for huge pages where untouched memory spans whole ones: one page fault instead of 512. Many
/// systems give them only on request. Does not ask for the parts at either end, which would cost
/// memory. The system may refuse.
void ask_for_huge_pages(std::byte* data, std::size_t size) noexcept;

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/core/huge_pages.ipp"
#endif

#pragma once

#include "lockstep/core/crc.hpp"
#include "lockstep/core/crc_methods.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE std::uint32_t crc32(std::span<const std::byte> bytes,
                                    std::uint32_t previous) noexcept {
  return detail::crc_by_tables<0xEDB88320>(bytes, previous);  // IEEE 802.3, bits reversed
}

LOCKSTEP_INLINE std::uint32_t crc32c(std::span<const std::byte> bytes,
                                     std::uint32_t previous) noexcept {
#if defined(LOCKSTEP_CRC32C_INSTRUCTION)
  if (detail::has_crc32c_instruction()) return detail::crc32c_by_instruction(bytes, previous);
#endif
  return detail::crc_by_tables<detail::castagnoli>(bytes, previous);
}

}}  // namespace lockstep

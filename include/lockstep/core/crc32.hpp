// CRC-32 as zip files have it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/core/crc_tables.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The CRC-32 of zip, gzip and PNG. `previous` is the CRC of the bytes before these, 0 for none:
/// crc32(b, crc32(a)) is that of a and b together.
[[nodiscard]] constexpr std::uint32_t crc32(std::span<const std::byte> bytes,
                                            std::uint32_t previous = 0) noexcept {
  return detail::crc_by_tables<0xEDB88320>(bytes, previous);  // IEEE 802.3, bits reversed
}

}  // namespace lockstep::inline LOCKSTEP_ABI

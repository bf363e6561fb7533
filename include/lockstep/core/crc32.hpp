// CRC-32 as zip files have it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/core/crc_tables.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The CRC-32 of zip, gzip and PNG, of what came before (whose CRC is `previous`) and `bytes`. The CRC of nothing is 0.
[[nodiscard]] constexpr std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t previous = 0) noexcept {
  return detail::crc_by_tables<0xEDB88320>(bytes, previous);  // IEEE 802.3, bits reversed
}

}  // namespace lockstep::inline LOCKSTEP_ABI

// Checksums: CRC-32 as zip files have it, and CRC-32C, that of messages, checkpoints and
// parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The CRC-32 of zip, gzip and PNG. `previous` is the CRC of the bytes before these, 0 for none:
/// crc32(b, crc32(a)) is the CRC of a followed by b.
[[nodiscard]] std::uint32_t crc32(std::span<const std::byte> bytes,
                                  std::uint32_t previous = 0) noexcept;

/// The CRC-32C (Castagnoli) of `bytes`. `previous` is the CRC of the bytes before these, 0 for
/// none: crc32c(b, crc32c(a)) is the CRC of a followed by b. The same on every machine; about
/// 20 GB/s where the processor has an instruction for it.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes,
                                   std::uint32_t previous = 0) noexcept;

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/core/crc.ipp"
#endif

// CRC-32C, the checksum of messages, checkpoints and parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/crc32c_instruction.hpp"
#include "lockstep/core/crc_tables.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The CRC-32C (Castagnoli) of `bytes`. `previous` is the CRC of the bytes before these, 0 for
/// none: crc32c(b, crc32c(a)) is that of a and b together. The same on every machine; about 20 GB/s
/// where the processor has an instruction for it.
[[nodiscard]] constexpr std::uint32_t crc32c(std::span<const std::byte> bytes,
                                             std::uint32_t previous = 0) noexcept {
#if defined(LOCKSTEP_CRC32C_INSTRUCTION)
  if (!std::is_constant_evaluated() && detail::has_crc32c_instruction())
    return detail::crc32c_by_instruction(bytes, previous);
#endif
  return detail::crc_by_tables<detail::castagnoli>(bytes, previous);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

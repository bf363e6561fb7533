// CRC-32C, the checksum of messages, checkpoints, event files and the line that tells two runs
// apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/crc32c_instruction.hpp"
#include "lockstep/core/crc_tables.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The CRC-32C (Castagnoli) of `bytes`; of what came before and `bytes`, given the CRC of what came
/// before: crc32c(b, crc32c(a)) is that of a and b. The CRC of nothing is 0. The same on every
/// machine; some 20 GB/s where the processor has an instruction for it.
[[nodiscard]] constexpr std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0) noexcept {
#if defined(LOCKSTEP_CRC32C_INSTRUCTION)
  if (!std::is_constant_evaluated() && detail::has_crc32c_instruction())
    return detail::crc32c_by_instruction(bytes, previous);
#endif
  return detail::crc_by_tables<detail::castagnoli>(bytes, previous);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

// CRC-32C, the checksum of checkpoints, event files and the line that tells two runs apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/crc_tables.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

inline constexpr std::uint32_t castagnoli = 0x82F63B78;  // bits reversed

#if defined(__x86_64__)
/// By the instruction of SSE 4.2, which is made for this polynomial: four times as fast as tables.
[[gnu::target("sse4.2")]] inline std::uint32_t crc32c_by_instruction(std::span<const std::byte> bytes,
                                                                     std::uint32_t previous) noexcept {
  std::uint64_t crc = ~previous;
  std::size_t i = 0;
  for (; bytes.size() - i >= 8; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, 8);
    crc = __builtin_ia32_crc32di(crc, word);
  }
  for (; i < bytes.size(); ++i)
    crc = __builtin_ia32_crc32qi(static_cast<std::uint32_t>(crc), static_cast<unsigned char>(bytes[i]));
  return ~static_cast<std::uint32_t>(crc);
}
#endif

}  // namespace detail

/// The CRC-32C (Castagnoli) of `bytes`; of what came before and `bytes`, given the CRC of what came before:
/// crc32c(b, crc32c(a)) is that of a and b. The CRC of nothing is 0. The same on every machine.
[[nodiscard]] constexpr std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0) noexcept {
#if defined(__x86_64__)
  if (!std::is_constant_evaluated() && __builtin_cpu_supports("sse4.2"))
    return detail::crc32c_by_instruction(bytes, previous);
#endif
  return detail::crc_by_tables<detail::castagnoli>(bytes, previous);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

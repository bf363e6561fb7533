// Checksums: CRC-32 as zip files have it, and CRC-32C, that of messages, checkpoints and
// parameters.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// crc_tables<P>[k][b] is the remainder of byte b followed by k zero bytes: eight tables take eight
/// bytes in one round (Kounavis, Berry, "A systematic approach to building high performance,
/// software-based, CRC generators", ISCC 2005). P: the polynomial with its bits reversed.
template <std::uint32_t P>
inline constexpr auto crc_tables = [] {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = remainder >> 1 ^ (remainder & 1 ? P : 0);
    tables[0][byte] = remainder;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t shorter = tables[k - 1][byte];
      tables[k][byte] = shorter >> 8 ^ tables[0][shorter & 0xFF];
    }
  return tables;
}();

/// The CRC of the bytes whose CRC is `previous`, followed by `bytes`.
template <std::uint32_t P>
[[nodiscard]] constexpr std::uint32_t crc_by_tables(std::span<const std::byte> bytes,
                                                    std::uint32_t previous) noexcept {
  const auto& tables = crc_tables<P>;
  const auto at = [&](std::size_t i) { return static_cast<std::uint32_t>(bytes[i]); };
  std::uint32_t crc = ~previous;
  std::size_t i = 0;
  for (; bytes.size() - i >= 8; i += 8) {
    const std::uint32_t low = crc ^ (at(i) | at(i + 1) << 8 | at(i + 2) << 16 | at(i + 3) << 24);
    const std::uint32_t high = at(i + 4) | at(i + 5) << 8 | at(i + 6) << 16 | at(i + 7) << 24;
    crc = tables[7][low & 0xFF] ^ tables[6][low >> 8 & 0xFF] ^ tables[5][low >> 16 & 0xFF] ^
          tables[4][low >> 24] ^ tables[3][high & 0xFF] ^ tables[2][high >> 8 & 0xFF] ^
          tables[1][high >> 16 & 0xFF] ^ tables[0][high >> 24];
  }
  for (; i < bytes.size(); ++i) crc = crc >> 8 ^ tables[0][(crc ^ at(i)) & 0xFF];
  return ~crc;
}

}  // namespace detail

/// The CRC-32 of zip, gzip and PNG. `previous` is the CRC of the bytes before these, 0 for none:
/// crc32(b, crc32(a)) is that of a and b together.
[[nodiscard]] constexpr std::uint32_t crc32(std::span<const std::byte> bytes,
                                            std::uint32_t previous = 0) noexcept {
  return detail::crc_by_tables<0xEDB88320>(bytes, previous);  // IEEE 802.3, bits reversed
}

/// The CRC-32C (Castagnoli) of `bytes`. `previous` is the CRC of the bytes before these, 0 for
/// none: crc32c(b, crc32c(a)) is that of a and b together. The same on every machine; about 20 GB/s
/// where the processor has an instruction for it.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes,
                                   std::uint32_t previous = 0) noexcept;

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/core/crc.ipp"
#endif

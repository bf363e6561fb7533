// How CRCs are computed: with tables, or with the processor's own instruction, where there is one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "lockstep/core/config.hpp"

#if defined(__x86_64__)
#define LOCKSTEP_CRC32C_INSTRUCTION [[gnu::target("sse4.2")]]
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32) && defined(__AARCH64EL__)
#define LOCKSTEP_CRC32C_INSTRUCTION
#endif

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

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
[[nodiscard]] std::uint32_t crc_by_tables(std::span<const std::byte> bytes,
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

inline constexpr std::uint32_t castagnoli = 0x82F63B78;  // bits reversed

#if defined(LOCKSTEP_CRC32C_INSTRUCTION)

[[nodiscard]] inline bool has_crc32c_instruction() noexcept {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2");
#else
  return true;
#endif
}

/// What `bytes` further zero bytes make of the register. The operator is linear, so the results for
/// the four bytes of the register add up. `bytes` is a power of two.
template <std::size_t bytes>
inline constexpr auto crc32c_zeros = [] {
  std::array<std::uint32_t, 32> step{};  // by bit of the register; of one zero bit
  step[0] = castagnoli;
  for (std::size_t bit = 1; bit < 32; ++bit) step[bit] = std::uint32_t{1} << (bit - 1);
  for (std::size_t zeros = 1; zeros < 8 * bytes; zeros *= 2) {
    const auto half = step;
    for (std::uint32_t& image : step) {
      std::uint32_t twice = 0;
      for (std::size_t bit = 0; bit < 32; ++bit)
        if (image >> bit & 1) twice ^= half[bit];
      image = twice;
    }
  }
  std::array<std::array<std::uint32_t, 256>, 4> tables{};
  for (std::size_t k = 0; k < 4; ++k)
    for (std::size_t bit = 0; bit < 8; ++bit)
      for (std::size_t lower = 0; lower < std::size_t{1} << bit; ++lower)
        tables[k][lower | std::size_t{1} << bit] = tables[k][lower] ^ step[8 * k + bit];
  return tables;
}();

template <std::size_t bytes>
[[nodiscard]] inline std::uint32_t crc32c_after_zeros(std::uint32_t crc) noexcept {
  const auto& tables = crc32c_zeros<bytes>;
  return tables[0][crc & 0xFF] ^ tables[1][crc >> 8 & 0xFF] ^ tables[2][crc >> 16 & 0xFF] ^
         tables[3][crc >> 24];
}

LOCKSTEP_CRC32C_INSTRUCTION inline std::uint64_t crc32c_word(std::uint64_t crc,
                                                             const std::byte* at) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
#if defined(__x86_64__)
  return __builtin_ia32_crc32di(crc, word);
#elif defined(__clang__)
  return __builtin_arm_crc32cd(static_cast<std::uint32_t>(crc), word);
#else
  return __builtin_aarch64_crc32cx(static_cast<std::uint32_t>(crc), word);
#endif
}

LOCKSTEP_CRC32C_INSTRUCTION inline std::uint64_t crc32c_byte(std::uint64_t crc,
                                                             std::byte byte) noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_crc32qi(static_cast<std::uint32_t>(crc), static_cast<unsigned char>(byte));
#elif defined(__clang__)
  return __builtin_arm_crc32cb(static_cast<std::uint32_t>(crc), static_cast<unsigned char>(byte));
#else
  return __builtin_aarch64_crc32cb(static_cast<std::uint32_t>(crc),
                                   static_cast<unsigned char>(byte));
#endif
}

/// Takes all whole triples of lanes from the front of `bytes`. The instruction takes three cycles,
/// and one can start in each cycle, so three stretches are in progress at once (Gopal and others,
/// "Fast CRC computation for iSCSI polynomial using CRC32 instruction", 2011).
template <std::size_t lane>
LOCKSTEP_CRC32C_INSTRUCTION inline std::uint64_t crc32c_lanes(
    std::uint64_t crc, std::span<const std::byte>& bytes) noexcept {
  for (; bytes.size() >= 3 * lane; bytes = bytes.subspan(3 * lane)) {
    const std::byte* const at = bytes.data();
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < lane; i += 8) {
      crc = crc32c_word(crc, at + i);
      second = crc32c_word(second, at + lane + i);
      third = crc32c_word(third, at + 2 * lane + i);
    }
    crc = crc32c_after_zeros<lane>(static_cast<std::uint32_t>(crc)) ^ second;
    crc = crc32c_after_zeros<lane>(static_cast<std::uint32_t>(crc)) ^ third;
  }
  return crc;
}

#if defined(__x86_64__)

[[nodiscard]] inline bool has_vector_multiplication() noexcept {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
}

/// x to the power n modulo the polynomial, as a factor of a carry-less product with reversed bits.
constexpr long long crc32c_power(int n) noexcept {
  std::uint32_t power = 0x80000000;
  for (int i = 0; i < n; ++i) power = power >> 1 ^ (power & 1 ? castagnoli : 0);
  const std::uint64_t shifted = std::uint64_t{power} << 1;
  return static_cast<long long>(shifted);
}

using Crc32cVector [[gnu::vector_size(64)]] = long long;

[[gnu::target("sse4.2,avx512f,vpclmulqdq")]] inline Crc32cVector crc32c_load(
    const std::byte* at) noexcept {
  Crc32cVector value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// The remainder of each 16 bytes after four more vectors.
[[gnu::target("sse4.2,avx512f,vpclmulqdq")]] inline Crc32cVector crc32c_fold(
    Crc32cVector value) noexcept {
  constexpr int bits = 4 * 512;
  constexpr long long low = crc32c_power(bits + 32), high = crc32c_power(bits - 32);
  constexpr Crc32cVector factors{low, high, low, high, low, high, low, high};
#if defined(__clang__)
  return __builtin_ia32_pclmulqdq512(value, factors, 0x00) ^
         __builtin_ia32_pclmulqdq512(value, factors, 0x11);
#else
  return __builtin_ia32_vpclmulqdq_v8di(value, factors, 0x00) ^
         __builtin_ia32_vpclmulqdq_v8di(value, factors, 0x11);
#endif
}

/// Takes all whole blocks of 256 bytes, at least two, from the front of `bytes`. Multiplication
/// carries the remainder of the vectors along (Gopal and others, "Fast CRC computation for generic
/// polynomials using PCLMULQDQ instruction", 2009).
[[gnu::target("sse4.2,avx512f,vpclmulqdq")]] inline std::uint64_t crc32c_by_multiplication(
    std::uint64_t crc, std::span<const std::byte>& bytes) noexcept {
  constexpr std::size_t step = 4 * sizeof(Crc32cVector);
  const std::byte* at = bytes.data();
  Crc32cVector a = crc32c_load(at), b = crc32c_load(at + 64), c = crc32c_load(at + 128),
               d = crc32c_load(at + 192);
  a[0] ^= static_cast<long long>(crc);
  std::size_t left = bytes.size() - step;
  for (at += step; left >= step; at += step, left -= step) {
    a = crc32c_fold(a) ^ crc32c_load(at);
    b = crc32c_fold(b) ^ crc32c_load(at + 64);
    c = crc32c_fold(c) ^ crc32c_load(at + 128);
    d = crc32c_fold(d) ^ crc32c_load(at + 192);
  }
  bytes = bytes.last(left);
  crc = 0;
  for (const Crc32cVector& vector : {a, b, c, d})
    for (int i = 0; i < 8; ++i)
      crc = __builtin_ia32_crc32di(crc, static_cast<std::uint64_t>(vector[i]));
  return crc;
}

#endif

/// Call this only if has_crc32c_instruction().
LOCKSTEP_CRC32C_INSTRUCTION inline std::uint32_t crc32c_by_instruction(
    std::span<const std::byte> bytes, std::uint32_t previous) noexcept {
  std::uint64_t crc = static_cast<std::uint32_t>(~previous);
#if defined(__x86_64__)
  if (bytes.size() >= 1024 && has_vector_multiplication())
    crc = crc32c_by_multiplication(crc, bytes);
#endif
  crc = crc32c_lanes<8192>(crc, bytes);
  crc = crc32c_lanes<256>(crc, bytes);
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) crc = crc32c_word(crc, bytes.data());
  for (const std::byte byte : bytes) crc = crc32c_byte(crc, byte);
  return ~static_cast<std::uint32_t>(crc);
}

#endif

}}}  // namespace lockstep::detail

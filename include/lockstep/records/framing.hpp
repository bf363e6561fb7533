// The framing of TensorFlow's record files: TFRecord and event files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A record is its size as 8 bytes, their masked CRC, the data, and the masked CRC of the data; all
/// numbers little-endian (tensorflow/core/lib/io/record_writer.h).
inline constexpr std::size_t record_head_size = 12;
inline constexpr std::size_t record_tail_size = 4;

/// The CRC-32C in the form in which it is stored beside what it protects.
[[nodiscard]] std::uint32_t masked_crc32c(std::span<const std::byte> bytes) noexcept;

/// What stands in front of a record of `size` bytes.
[[nodiscard]] std::array<std::byte, record_head_size> record_head(std::uint64_t size) noexcept;

/// What stands behind it.
[[nodiscard]] std::array<std::byte, record_tail_size> record_tail(
    std::span<const std::byte> data) noexcept;

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/records/framing.ipp"
#endif

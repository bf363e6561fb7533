// The framing of TensorFlow's record files: TFRecord and event files.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/core/crc32c.hpp"
#include "lockstep/core/little_endian.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A record is its size as 8 bytes, their masked CRC, the data, and the masked CRC of the data; all
/// numbers little-endian (tensorflow/core/lib/io/record_writer.h).
inline constexpr std::size_t record_head_size = 12;
inline constexpr std::size_t record_tail_size = 4;

/// The CRC-32C in the form in which it is stored beside what it protects.
[[nodiscard]] inline std::uint32_t masked_crc32c(std::span<const std::byte> bytes) noexcept {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

/// What stands in front of a record of `size` bytes.
[[nodiscard]] inline std::array<std::byte, record_head_size> record_head(
    std::uint64_t size) noexcept {
  std::array<std::byte, record_head_size> head{};
  put_number<8>(head.data(), size);
  put_number<4>(head.data() + 8, masked_crc32c(std::span(head).first<8>()));
  return head;
}

/// What stands behind it.
[[nodiscard]] inline std::array<std::byte, record_tail_size> record_tail(
    std::span<const std::byte> data) noexcept {
  std::array<std::byte, record_tail_size> tail{};
  put_number<4>(tail.data(), masked_crc32c(data));
  return tail;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

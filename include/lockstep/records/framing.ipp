#pragma once

#include <bit>

#include "lockstep/core/crc32c.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/records/framing.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE std::uint32_t masked_crc32c(std::span<const std::byte> bytes) noexcept {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

LOCKSTEP_INLINE std::array<std::byte, record_head_size> record_head(std::uint64_t size) noexcept {
  std::array<std::byte, record_head_size> head{};
  put_number<8>(head.data(), size);
  put_number<4>(head.data() + 8, masked_crc32c(std::span(head).first<8>()));
  return head;
}

LOCKSTEP_INLINE std::array<std::byte, record_tail_size> record_tail(
    std::span<const std::byte> data) noexcept {
  std::array<std::byte, record_tail_size> tail{};
  put_number<4>(tail.data(), masked_crc32c(data));
  return tail;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

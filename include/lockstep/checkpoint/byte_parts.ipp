#pragma once

#include "lockstep/checkpoint/byte_parts.hpp"
#include "lockstep/core/buffer.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE void ByteParts::add(std::span<const std::byte> part) { parts_.push_back(part); }

LOCKSTEP_INLINE std::size_t ByteParts::size() const noexcept {
  std::size_t size = 0;
  for (const std::span<const std::byte> part : parts_) size += part.size();
  return size;
}

namespace detail {

LOCKSTEP_INLINE void copy_bytes(std::span<const std::byte> source, std::vector<std::byte>& bytes) {
  bytes.clear();
  if (source.size() > bytes.capacity()) {
    bytes.reserve(source.size());
    ask_for_huge_pages(bytes.data(), source.size());
  }
  bytes.insert(bytes.end(), source.begin(), source.end());
}

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI

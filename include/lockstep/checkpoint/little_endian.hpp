// Whole numbers in files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Little-endian, on every machine.
inline void put_number(std::byte* to, std::uint64_t number, std::size_t size) noexcept {
  for (std::size_t i = 0; i < size; ++i) to[i] = static_cast<std::byte>(number >> (8 * i));
}

[[nodiscard]] inline std::uint64_t get_number(const std::byte* from, std::size_t size) noexcept {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < size; ++i) number |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  return number;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

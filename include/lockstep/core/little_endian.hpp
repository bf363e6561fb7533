// Whole numbers in files and on the wire.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Writes the lowest `size` bytes of a number, at most 8, little-endian on every machine.
constexpr void put_number(std::byte* to, std::uint64_t number, std::size_t size) noexcept {
  for (std::size_t i = 0; i < size; ++i) to[i] = static_cast<std::byte>(number >> (8 * i) & 0xFF);
}
template <std::size_t Size>
constexpr void put_number(std::byte* to, std::uint64_t number) noexcept {
  put_number(to, number, Size);
}

/// Reads what put_number has written.
[[nodiscard]] constexpr std::uint64_t get_number(const std::byte* from, std::size_t size) noexcept {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < size; ++i)
    number |= std::uint64_t{static_cast<std::uint8_t>(from[i])} << (8 * i);
  return number;
}
template <std::size_t Size>
[[nodiscard]] constexpr std::uint64_t get_number(const std::byte* from) noexcept {
  return get_number(from, Size);
}

}}}  // namespace lockstep::detail

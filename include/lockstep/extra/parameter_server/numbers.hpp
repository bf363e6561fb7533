// Numbers in messages of parameter servers.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "lockstep/core/config.hpp"
#include "lockstep/core/little_endian.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Numbers of 8 bytes, one after the other, with which messages begin.
template <class... Numbers>
[[nodiscard]] std::array<std::byte, 8 * sizeof...(Numbers)> pack_numbers(Numbers... numbers) {
  static_assert(((sizeof(Numbers) == 8) && ...));
  std::array<std::byte, 8 * sizeof...(Numbers)> bytes{};
  std::byte* to = bytes.data();
  ((put_number<8>(to, std::bit_cast<std::uint64_t>(numbers)), to += 8), ...);
  return bytes;
}

template <class... Numbers>
void unpack_numbers(const std::array<std::byte, 8 * sizeof...(Numbers)>& bytes,
                    Numbers&... numbers) {
  const std::byte* from = bytes.data();
  ((numbers = std::bit_cast<Numbers>(get_number<8>(from)), from += 8), ...);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

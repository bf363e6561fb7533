// Between which ranks data goes.
#pragma once

#include <bit>
#include <cstddef>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Up to so many ranks, data goes between any two.
inline constexpr int most_ranks_all_connected = 8;

/// Whether data goes between two of `size` ranks. With many ranks, only where the distance between
/// them, round the circle one way or the other, is a power of two: the ring's neighbours and the
/// partners of a gathering or a barrier are among these, and there are no more than 2 log2(size).
[[nodiscard]] constexpr bool are_data_partners(int a, int b, int size) noexcept {
  if (a == b) return false;
  if (size <= most_ranks_all_connected) return true;
  const auto distance = static_cast<unsigned>(a < b ? b - a : a - b);
  return std::has_single_bit(distance) ||
         std::has_single_bit(static_cast<unsigned>(size) - distance);
}

/// With how many of `size` ranks each one exchanges data.
[[nodiscard]] constexpr std::size_t count_data_partners(int size) noexcept {
  std::size_t count = 0;
  for (int other = 1; other < size; ++other) count += are_data_partners(0, other, size);
  return count;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

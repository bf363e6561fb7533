// Between which ranks there are connections.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Up to this many ranks, all are connected.
inline constexpr int most_ranks_all_connected = 8;

/// Whether two of `size` ranks at work are connected, for data and for control. With many ranks,
/// only where the distance between them, round the circle one way or the other, is a power of two:
/// the ring's neighbours and the partners of a gathering or a barrier are among these, and there
/// are no more than 2 log2(size). What concerns others goes through these (see ControlChannel).
[[nodiscard]] constexpr bool are_partners(int a, int b, int size) noexcept {
  if (a == b) return false;
  if (size <= most_ranks_all_connected) return true;
  const auto distance = static_cast<unsigned>(a < b ? b - a : a - b);
  return std::has_single_bit(distance) ||
         std::has_single_bit(static_cast<unsigned>(size) - distance);
}

/// While they find each other, all ranks have a connection with rank 0 as well: it hears from each
/// one that it is ready.
[[nodiscard]] constexpr bool meet_at_startup(int a, int b, int size) noexcept {
  return a != b && (a == 0 || b == 0 || are_partners(a, b, size));
}

/// In the order of the ranks.
[[nodiscard]] inline std::vector<int> partners_of(int rank, int size) {
  std::vector<int> partners;
  for (int other = 0; other < size; ++other)
    if (are_partners(rank, other, size)) partners.push_back(other);
  return partners;
}

/// The distance between two ranks, the shorter way round the circle.
[[nodiscard]] constexpr int circle_distance(int a, int b, int size) noexcept {
  const int distance = a < b ? b - a : a - b;
  return std::min(distance, size - distance);
}

/// At the end of the work, a rank other than 0 leaves before this one, which is a partner of it, so
/// that rank 0 leaves last.
[[nodiscard]] constexpr int leaves_after(int rank, int size) noexcept {
  if (are_partners(0, rank, size)) return 0;
  return rank - static_cast<int>(std::bit_floor(static_cast<unsigned>(rank)));
}

}}}  // namespace lockstep::detail

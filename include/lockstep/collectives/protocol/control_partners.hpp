// Between which ranks there are connections for control, and on which ways words go further.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "lockstep/collectives/protocol/data_partners.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Whether two of `size` ranks at work have a connection for control: where they have those for
/// data. So up to 8 ranks all talk to each other, and of more each one to about 2 log2(size);
/// what concerns others goes through these (see ControlChannel).
[[nodiscard]] constexpr bool are_control_partners(int a, int b, int size) noexcept {
  return are_data_partners(a, b, size);
}

/// While they find each other, all ranks have a connection with rank 0 as well: it hears from each
/// one that it is ready.
[[nodiscard]] constexpr bool meet_at_startup(int a, int b, int size) noexcept {
  return a != b && (a == 0 || b == 0 || are_control_partners(a, b, size));
}

/// In the order of the ranks.
[[nodiscard]] inline std::vector<int> control_partners(int rank, int size) {
  std::vector<int> partners;
  for (int other = 0; other < size; ++other)
    if (are_control_partners(rank, other, size)) partners.push_back(other);
  return partners;
}

/// From one rank to the other, round the circle the shorter way.
[[nodiscard]] constexpr int circle_distance(int a, int b, int size) noexcept {
  const int distance = a < b ? b - a : a - b;
  return std::min(distance, size - distance);
}

/// At the end of the work, a rank other than 0 leaves before this one, which is a partner of it, so
/// that rank 0 leaves last.
[[nodiscard]] constexpr int leaves_after(int rank, int size) noexcept {
  if (are_control_partners(0, rank, size)) return 0;
  return rank - static_cast<int>(std::bit_floor(static_cast<unsigned>(rank)));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#pragma once

#include <algorithm>
#include <iterator>

#include "lockstep/step/update_shares.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE void UpdateShares::add(
    const std::vector<std::pair<std::size_t, std::size_t>>& begins_and_sizes) {
  std::vector<SharePiece>& pieces = of_workers_.emplace_back();
  std::size_t place = 0;
  for (const auto& [begin, size] : begins_and_sizes) {
    pieces.push_back({.begin = begin, .size = size, .place = place});
    place += size;
  }
}

LOCKSTEP_INLINE std::size_t UpdateShares::size(int worker) const noexcept {
  const auto pieces = of(worker);
  return pieces.empty() ? 0 : pieces.back().place + pieces.back().size;
}

LOCKSTEP_INLINE std::size_t UpdateShares::place(int worker, std::size_t element) const noexcept {
  const auto pieces = of(worker);
  const auto next = std::ranges::upper_bound(pieces, element, {}, &SharePiece::begin);
  const SharePiece& piece = *std::prev(next);
  return piece.place + (element - piece.begin);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

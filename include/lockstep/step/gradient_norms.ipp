#pragma once

#include <cmath>

#include "lockstep/step/gradient_norms.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE void GradientNorms::set_squares(double squares) noexcept {
  for (Block& block : blocks_) block.squares = 0;
  if (!blocks_.empty()) blocks_.front().squares = squares;
}

LOCKSTEP_INLINE double GradientNorms::norm(std::size_t begin, std::size_t end) const {
  double sum = 0;
  for (auto block = std::ranges::lower_bound(blocks_, begin, {}, &Block::begin);
       block != blocks_.end() && block->begin < end; ++block)
    sum += block->squares;
  return std::sqrt(sum);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

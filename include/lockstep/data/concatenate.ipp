#pragma once

#include "lockstep/data/concatenate.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE void ConcatenateDataset::begin(Pass pass) {
  begin_branches(pass);
  current_ = 0;
}

LOCKSTEP_INLINE bool ConcatenateDataset::next(Element& element) {
  for (; current_ < branches_.size(); ++current_)
    if (next_of(current_, element)) return true;
  return false;
}

LOCKSTEP_INLINE std::int64_t ConcatenateDataset::advance(std::int64_t n) {
  std::int64_t moved = 0;
  for (; moved < n && current_ < branches_.size(); ++current_) {
    moved += branches_[current_].advance(n - moved);
    if (moved == n) break;
  }
  return moved;
}

}  // namespace lockstep::inline LOCKSTEP_ABI

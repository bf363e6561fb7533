#pragma once

#include <algorithm>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/interleave.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE Interleave::Interleave(std::vector<AnyStage> branches, InterleaveOptions options)
    : JoinedStages("interleave", std::move(branches)), options_(options) {
  if (options.cycle_length < 0)
    throw ConfigurationError(
        concat({"interleave: cycle_length must be at least 1, or 0 for all datasets, got ",
                options.cycle_length}));
  if (options.block_length < 1)
    throw ConfigurationError(
        concat({"interleave: block_length must be at least 1, got ", options.block_length}));
}

LOCKSTEP_INLINE void Interleave::begin(Pass pass) {
  begin_branches(pass);
  const std::size_t all = branches_.size();
  const auto length = static_cast<std::uint64_t>(options_.cycle_length);
  cycle_.assign(length == 0 ? all : static_cast<std::size_t>(std::min<std::uint64_t>(length, all)),
                all);
  place_ = opened_ = ended_ = 0;
  in_turn_ = 0;
}

LOCKSTEP_INLINE std::size_t Interleave::turn() {
  while (ended_ < branches_.size()) {
    if (cycle_[place_] == branches_.size() && opened_ < branches_.size())
      cycle_[place_] = opened_++;
    if (cycle_[place_] < branches_.size()) break;
    end_turn();
  }
  return ended_ < branches_.size() ? cycle_[place_] : branches_.size();
}

LOCKSTEP_INLINE void Interleave::end_turn() noexcept {
  place_ = (place_ + 1) % cycle_.size();
  in_turn_ = 0;
}

LOCKSTEP_INLINE void Interleave::taken(std::int64_t samples) noexcept {
  in_turn_ += samples;
  if (in_turn_ == options_.block_length) end_turn();
}

LOCKSTEP_INLINE bool Interleave::next(Element& element) {
  for (std::size_t branch = turn(); branch < branches_.size(); branch = turn()) {
    if (next_of(branch, element)) {
      taken(1);
      return true;
    }
    cycle_[place_] = branches_.size();
    ++ended_;
    end_turn();
  }
  return false;
}

LOCKSTEP_INLINE std::int64_t Interleave::advance(std::int64_t n) {
  std::int64_t moved = 0;
  while (moved < n) {
    const std::size_t branch = turn();
    if (branch == branches_.size()) break;
    const std::int64_t wanted = std::min(n - moved, options_.block_length - in_turn_);
    const std::int64_t got = branches_[branch].advance(wanted);
    moved += got;
    if (got < wanted) {
      cycle_[place_] = branches_.size();
      ++ended_;
      end_turn();
    } else {
      taken(got);
    }
  }
  return moved;
}

LOCKSTEP_INLINE void Interleave::describe(PipelineDescription& description) const {
  description.add({"interleave", describe_branches(branches_), " (", options_.cycle_length, ", ",
                   options_.block_length, ")"});
}

}  // namespace lockstep::inline LOCKSTEP_ABI

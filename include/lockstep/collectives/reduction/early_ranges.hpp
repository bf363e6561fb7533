// The ranges in which gradients are reduced while backward computes others.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Cuts a step's gradients, which become ready from the start of the arena on, into ranges. The
/// ranges grow, so that a long array has few of them, and each is long enough for the wire. They
/// are the same on every rank, however far it is, and are cut where the sums stay those of one
/// reduction (see Partition). What is left at the end is long enough to be reduced as a long array
/// is.
class EarlyRanges {
 public:
  constexpr EarlyRanges(std::size_t elements, int size) noexcept {
    const auto ranks = static_cast<std::size_t>(size);
    grain_ = (least_blocks + ranks - 1) / ranks * ranks * block_elements;
    const std::size_t tail = ranks * block_elements;
    limit_ = elements > tail ? (elements - tail) / grain_ * grain_ : 0;
  }

  /// Elements of the longest range at most.
  [[nodiscard]] constexpr std::size_t longest() const noexcept {
    return longest_in_grains * grain_;
  }
  /// Whether there are any.
  [[nodiscard]] bool empty() const noexcept { return limit_ == 0; }
  void begin_step() noexcept { begun_ = 0; }
  /// The first `count` elements are ready: calls reduce(begin, size) for each range that has become
  /// complete.
  template <class F>
  void ready(std::size_t count, const F& reduce) {
    for (std::size_t next = next_range(); next > 0 && begun_ + next <= count; next = next_range()) {
      reduce(begun_, next);
      begun_ += next;
    }
  }
  /// Elements of the ranges so far: those from this one on are left.
  [[nodiscard]] std::size_t begun() const noexcept { return begun_; }

 private:
  static constexpr std::size_t least_blocks = 4;  // 1 MiB of float
  static constexpr std::size_t longest_in_grains = 4;

  // Elements of the next range; 0 after the last one.
  [[nodiscard]] std::size_t next_range() const noexcept {
    return std::min(std::clamp(begun_, grain_, longest()), limit_ - begun_);
  }

  std::size_t grain_ = 0;
  std::size_t limit_ = 0;
  std::size_t begun_ = 0;
};

}}}  // namespace lockstep::detail

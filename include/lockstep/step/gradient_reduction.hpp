// The reduction of a step's gradients, which may begin before backward has ended.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/step/overlap_choice.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A Collective that has the optional operation 10.
template <class C, class T>
concept OverlappingCollective = requires(C& collective, std::span<T> values) {
  collective.all_reduce_async(values);
  collective.wait();
  collective.overlap();
  collective.has_spare_core();
};

template <class T, Collective C>
[[nodiscard]] OverlapChoice overlap_choice(const C& collective) noexcept {
  if constexpr (OverlappingCollective<C, T>) return {collective.overlap(), collective.has_spare_core()};
  return {};
}

/// Takes the gradients of one step as they become ready, from the start of the arena on, and reduces them in ranges that grow, to few
/// for a long array. They are the same on every rank, however far each of them is, and cut where the sums stay those of one
/// reduction (see Partition), each long enough for the wire; the last is long enough to go the way of a long array.
///
/// An object lives from the beginning of backward to the end of the step's reduction.
template <Collective C, class T>
class GradientReduction {
 public:
  static constexpr std::size_t least_blocks = 4;  // 1 MiB of float

  GradientReduction(C& collective, std::span<T> gradients, OverlapChoice& choice)
      : collective_(collective), gradients_(gradients), choice_(choice) {
    const auto ranks = static_cast<std::size_t>(collective.size());
    grain_ = (least_blocks + ranks - 1) / ranks * ranks * block_elements;
    const std::size_t tail = ranks * block_elements;
    limit_ = ranks > 1 && gradients.size() > tail ? (gradients.size() - tail) / grain_ * grain_ : 0;
  }
  GradientReduction(const GradientReduction&) = delete;
  GradientReduction& operator=(const GradientReduction&) = delete;

  /// For the context of backward.
  [[nodiscard]] BackwardProgress hook() noexcept {
    if constexpr (OverlappingCollective<C, T>)
      if (limit_ > 0 && (choice_.overlaps() || choice_.is_measuring()))
        return {this, [](void* self, const void* end) {
                  auto& reduction = *static_cast<GradientReduction*>(self);
                  reduction.ready(static_cast<std::size_t>(static_cast<const T*>(end) - reduction.gradients_.data()));
                }};
    return {};
  }

  /// Reduces what is left, and the status with it.
  void finish(std::span<double> status) {
    if (choice_.is_measuring()) choice_.begin_reduction();
    collective_.all_reduce(status, gradients_.subspan(begun_));
    if constexpr (OverlappingCollective<C, T>) collective_.wait();
    if (choice_.is_measuring()) choice_.add(choice_.end_reduction());
  }

 private:
  // The first `count` gradients are.
  void ready(std::size_t count) {
    for (std::size_t next = next_range(); next > 0 && begun_ + next <= count; next = next_range()) {
      if (!choice_.overlaps()) return choice_.gradients_ready();
      if constexpr (OverlappingCollective<C, T>) collective_.all_reduce_async(gradients_.subspan(begun_, next));
      begun_ += next;
    }
  }

  // Elements of the next range; 0 after the last one before finish().
  [[nodiscard]] std::size_t next_range() const noexcept {
    return std::min(std::clamp(begun_, grain_, 4 * grain_), limit_ - begun_);
  }

  C& collective_;
  std::span<T> gradients_;
  OverlapChoice& choice_;
  std::size_t grain_;
  std::size_t limit_;
  std::size_t begun_ = 0;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

// All-reduces that begin before backward has ended.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/step/updater.hpp"
#include "lockstep/step/updaters/all_reduce.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Takes the gradients of a step as they become ready, from the start of the arena on, and reduces
/// them in ranges that grow, to few for a long array. They are the same on every rank, however far
/// each of them is, and cut where the sums stay those of one reduction (see Partition), each long
/// enough for the wire; the last is long enough to go the way of a long array.
template <class T>
class OverlappedUpdater final : public Updater<T> {
  using Base = Updater<T>;
  using Base::parts_;

 public:
  static constexpr std::size_t least_blocks = 4;  // 1 MiB of float

  explicit OverlappedUpdater(const Parts<T>& parts) noexcept : Base(parts) {
    const auto ranks = static_cast<std::size_t>(parts.replica.collective().size());
    grain_ = (least_blocks + ranks - 1) / ranks * ranks * block_elements;
    const std::size_t tail = ranks * block_elements;
    const std::size_t elements = parts.workspace.gradients().values().size();
    limit_ = elements > tail ? (elements - tail) / grain_ * grain_ : 0;
  }

  [[nodiscard]] std::string_view name() const noexcept override {
    return "all-reduce, overlapped with backward";
  }

  typename Base::Progress begin(const UpdateStep& step) override {
    step_ = step;
    begun_ = 0;
    return limit_ > 0 ? Base::Progress::gradients : Base::Progress::none;
  }

  void ready(std::size_t count) override {
    for (std::size_t next = next_range(); next > 0 && begun_ + next <= count; next = next_range()) {
      parts_.replica.collective().all_reduce_async(
          parts_.workspace.gradients().values().subspan(begun_, next));
      begun_ += next;
    }
  }

  bool finish() override {
    auto& workspace = parts_.workspace;
    auto& collective = parts_.replica.collective();
    {
      const auto begin = Trace::Clock::now();
      const TraceSpan span(step_.trace, TracePart::collective);
      collective.all_reduce(workspace.pack_status(),
                            workspace.gradients().values().subspan(begun_));
      collective.wait();
      workspace.take_status(collective.size());
      workspace.in_collective += Trace::Clock::now() - begin;
    }
    return update_part(parts_, step_);
  }

 private:
  // Elements of the next range; 0 after the last one before finish().
  [[nodiscard]] std::size_t next_range() const noexcept {
    return std::min(std::clamp(begun_, grain_, 4 * grain_), limit_ - begun_);
  }

  UpdateStep step_;
  std::size_t grain_ = 0;
  std::size_t limit_ = 0;
  std::size_t begun_ = 0;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

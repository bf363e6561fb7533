// Updates after an all-reduce of all gradients, at the end of backward or while it goes on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/step/updater.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Cuts a step's gradients, which become ready from the start of the arena on, into ranges. The
/// ranges grow, so that a long array has few of them, and each is long enough for the wire. They
/// are the same on every rank, however far it is, and cut where the sums are those of one reduction
/// (see Partition). The rest at the end is long enough to be reduced like a long array.
class EarlyRanges {
 public:
  EarlyRanges(std::size_t elements, int size) noexcept {
    const auto ranks = static_cast<std::size_t>(size);
    grain_ = (least_blocks + ranks - 1) / ranks * ranks * block_elements;
    const std::size_t tail = ranks * block_elements;
    limit_ = elements > tail ? (elements - tail) / grain_ * grain_ : 0;
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
  /// Elements of the ranges so far; the rest is left.
  [[nodiscard]] std::size_t begun() const noexcept { return begun_; }

 private:
  static constexpr std::size_t least_blocks = 4;  // 1 MiB of float

  // Elements of the next range; 0 after the last one.
  [[nodiscard]] std::size_t next_range() const noexcept {
    return std::min(std::clamp(begun_, grain_, 4 * grain_), limit_ - begun_);
  }

  std::size_t grain_ = 0;
  std::size_t limit_ = 0;
  std::size_t begun_ = 0;
};

/// The second half of all routes that reduce first: each replica of a process updates a part of
/// their shared parameters. The workspace has the reduced gradients and status. Returns whether
/// there was an update to make.
template <class T>
bool update_part(const Parts<T>& parts, const UpdateStep& step) {
  auto& replica = parts.replica;
  const StatusBlock& status = parts.workspace.status();
  const bool makes_update = step.makes_update(status.values());
  {
    const TraceSpan span(step.trace, TracePart::optimizer);
    if (makes_update) {
      const auto index = static_cast<std::size_t>(replica.local_rank());
      const auto count = static_cast<std::size_t>(replica.local_size());
      if (parts.variables.clips_by_norm()) {
        parts.variables.norms().compute_part(
            std::span<const T>(parts.workspace.gradients().values()), index, count);
        replica.team_barrier();
      }
      const auto [first, size] = parts.variables.part(index, count);
      parts.variables.update(parts.variables.parameters().values().subspan(first, size),
                             parts.workspace.gradients().values().subspan(first, size), first,
                             step.rows(status.values()), step.iteration);
    }
  }
  const TraceSpan span(step.trace, TracePart::collective);
  replica.team_barrier();  // no replica reads parameters that another has yet to update
  return makes_update;
}

/// One all-reduce of status and gradients after backward, then the update.
template <class T>
class AllReduceUpdater final : public Updater<T> {
  using Base = Updater<T>;
  using Base::parts_;

 public:
  explicit AllReduceUpdater(const Parts<T>& parts) noexcept : Base(parts) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "all-reduce"; }

  typename Base::Progress begin(const UpdateStep& step) override {
    step_ = step;
    return Base::Progress::none;
  }
  void ready(std::size_t) override {}

  bool finish() override {
    auto& workspace = parts_.workspace;
    auto& collective = parts_.replica.collective();
    {
      const auto begin = Trace::Clock::now();
      const TraceSpan span(step_.trace, TracePart::collective);
      collective.all_reduce(workspace.pack_status(), workspace.gradients().values());
      workspace.take_status(collective.size());
      workspace.in_collective += Trace::Clock::now() - begin;
    }
    return update_part(parts_, step_);
  }

 private:
  UpdateStep step_;
};

/// Takes the gradients of a step as they become ready, and reduces them in ranges (see
/// EarlyRanges).
template <class T>
class OverlappedUpdater final : public Updater<T> {
  using Base = Updater<T>;
  using Base::parts_;

 public:
  explicit OverlappedUpdater(const Parts<T>& parts) noexcept
      : Base(parts),
        ranges_(parts.workspace.gradients().values().size(), parts.replica.collective().size()) {}

  [[nodiscard]] std::string_view name() const noexcept override {
    return "all-reduce, overlapped with backward";
  }

  typename Base::Progress begin(const UpdateStep& step) override {
    step_ = step;
    ranges_.begin_step();
    return ranges_.empty() ? Base::Progress::none : Base::Progress::gradients;
  }

  void ready(std::size_t count) override {
    ranges_.ready(count, [this](std::size_t begin, std::size_t size) {
      parts_.replica.collective().all_reduce_async(
          parts_.workspace.gradients().values().subspan(begin, size));
    });
  }

  bool finish() override {
    auto& workspace = parts_.workspace;
    auto& collective = parts_.replica.collective();
    {
      const auto begin = Trace::Clock::now();
      const TraceSpan span(step_.trace, TracePart::collective);
      collective.all_reduce(workspace.pack_status(),
                            workspace.gradients().values().subspan(ranges_.begun()));
      collective.wait();
      workspace.take_status(collective.size());
      workspace.in_collective += Trace::Clock::now() - begin;
    }
    return update_part(parts_, step_);
  }

 private:
  UpdateStep step_;
  EarlyRanges ranges_;
};

}}}  // namespace lockstep::detail

// Updates after an all-reduce of all gradients, at the end of backward or while it goes on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "lockstep/collectives/reduction/early_ranges.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/step/updater.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The second half of all routes that reduce first: each replica of a process updates a part of the
/// parameters that they share. The workspace has the reduced gradients and status. Returns whether
/// there was an update to make.
template <class T>
bool update_part(const Parts<T>& parts, const UpdateStep& step) {
  auto& replica = parts.replica;
  const StatusBlock& status = parts.workspace.status();
  bool makes_update = step.makes_update(status.values());
  {
    const TraceSpan span(step.trace, TracePart::optimizer);
    const auto index = static_cast<std::size_t>(replica.local_rank());
    const auto count = static_cast<std::size_t>(replica.local_size());
    if (makes_update && parts.variables.needs_norms()) {
      parts.variables.norms().compute_part(std::span<const T>(parts.workspace.gradients().values()),
                                           index, count);
      replica.team_barrier();
      makes_update = are_finite(parts);
    }
    if (makes_update) {
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

// Updates by the gradients of several steps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/collectives/options.hpp"
#include "lockstep/core/arena.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/step/updater.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Each rank sums its gradients over a window of steps; in the last one another route reduces the
/// sums, so that there is one reduction for each update. The other steps reduce only their status.
///
/// Where training may stop within a window (carry), the ranks' sums become one sum, in Variables,
/// which rank 0 adds to its gradients in the last step of the window. So a window goes on over the
/// end of an epoch, and over a saved state, whatever the number of ranks then.
template <class T>
class AccumulatedUpdater final : public Updater<T> {
  using Base = Updater<T>;
  using Base::parts_;

 public:
  AccumulatedUpdater(const Parts<T>& parts, std::unique_ptr<Updater<T>> route)
      : Base(parts),
        route_(std::move(route)),
        name_(std::string(route_->name()) + ", once in " +
              std::to_string(parts.variables.accumulation_steps()) + " steps"),
        sums_(parts.program.layout().variables) {}

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }

  typename Base::Progress begin(const UpdateStep& step) override {
    step_ = step;
    if (std::exchange(revision_, parts_.variables.revision) != parts_.variables.revision) {
      empty();
      rows_ = parts_.variables.accumulated_rows;
    }
    if (step.is_first) {  // the last window may have ended without an update
      empty();
      rows_ = 0;
    }
    if (!step.is_last) return Base::Progress::none;
    added_ = 0;
    step_.earlier_rows = rows_;
    return route_->begin(step_);
  }

  void ready(std::size_t count) override {
    add_until(count);
    route_->ready(count);
  }

  bool finish() override {
    if (step_.is_last) {
      add_until(parts_.workspace.gradients().values().size());
      if (!route_->finish()) return false;
      empty();
      rows_ = 0;
      return true;
    }
    reduce_status();
    const StatusBlock& status = parts_.workspace.status();
    UpdateStep alone = step_;
    alone.is_last = true;
    if (alone.makes_update(status.values())) {
      add(parts_.workspace.gradients().values(), sums_.values(), 1 / step_.loss_scale);
      holds_sums_ = true;
      rows_ += status[StatusBlock::rows];
    }
    return false;
  }

  void carry(std::int64_t steps) override {
    if (std::exchange(holds_sums_, false)) {
      const TraceSpan span(step_.trace, TracePart::collective);
      parts_.replica.collective().all_reduce(sums_.values(), ReduceOp::sum);
      if (parts_.replica.local_rank() == 0)
        add(sums_.values(), parts_.variables.accumulated().values());
      std::ranges::fill(sums_.values(), T(0));
    }
    if (parts_.replica.local_rank() == 0) {
      parts_.variables.accumulated_steps = steps;
      parts_.variables.accumulated_rows = rows_;
    }
    parts_.workspace.end_step();
    parts_.replica.team_barrier();
  }

 private:
  // (Sums are those of the loss without its scale.)
  static void add(std::span<const T> from, std::span<T> to, double by = 1) {
    const T factor = static_cast<T>(by);
    const auto step = [=](auto& sum, const auto& value)
                          LOCKSTEP_KERNEL_LAMBDA { sum += factor * value; };
    kernels::sweep(to.size(), step, to.data(), from.data());
  }

  // The gradients of the last step become those of the window, up to element `end`.
  void add_until(std::size_t end) {
    const std::size_t begin = std::exchange(added_, end);
    const std::span<T> gradients =
        parts_.workspace.gradients().values().subspan(begin, end - begin);
    if (holds_sums_) add(sums_.values().subspan(begin, end - begin), gradients, step_.loss_scale);
    if (parts_.replica.collective().rank() == 0 && parts_.variables.accumulated_steps > 0)
      add(parts_.variables.accumulated().values().subspan(begin, end - begin), gradients,
          step_.loss_scale);
  }

  void reduce_status() {
    auto& workspace = parts_.workspace;
    auto& collective = parts_.replica.collective();
    if (collective.size() == 1) return;
    const auto begin = Trace::Clock::now();
    const TraceSpan span(step_.trace, TracePart::collective);
    collective.all_reduce(workspace.pack_status(), ReduceOp::sum);
    workspace.take_status(collective.size());
    workspace.in_collective += Trace::Clock::now() - begin;
  }

  void empty() {
    if (std::exchange(holds_sums_, false)) std::ranges::fill(sums_.values(), T(0));
  }

  std::unique_ptr<Updater<T>> route_;
  const std::string name_;
  Arena<T> sums_;            // of this rank, since the last carry or update
  bool holds_sums_ = false;  // on all ranks alike
  double rows_ = 0;          // of the window so far, of all ranks
  std::int64_t revision_ = -1;
  std::size_t added_ = 0;
  UpdateStep step_;
};

}}}  // namespace lockstep::detail

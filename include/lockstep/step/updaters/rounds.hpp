// Updates of ranks that meet after a round of steps.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/options.hpp"
#include "lockstep/core/arena.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/step/updater.hpp"
#include "lockstep/step/updaters/alone.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Each rank updates its parameters, and calls no collective, until a step ends the round. Then the
/// ranks sum how far each has moved since the round began, and go on together from there: the
/// formulas are at Synchronization. The status is summed over the round. The variables of `parts`
/// are this rank's alone.
template <class T>
class RoundsUpdater final : public Updater<T> {
  using Base = Updater<T>;
  using Base::parts_;

 public:
  explicit RoundsUpdater(const Parts<T>& parts)
      : Base(parts),
        alone_(parts),
        name_(parts.variables.synchronization().description()),
        moves_(parts.replica.collective().size() > 1 ||
               !parts.variables.synchronization().is_mean()),
        round_(parts.program.layout().metric_state),
        ranks_(static_cast<std::size_t>(parts.replica.collective().size())) {
    if (moves_) start_ = Arena<T>(parts.program.layout().variables);
  }

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }

  typename Base::Progress begin(const UpdateStep& step) override {
    step_ = step;
    if (alone_steps_ == 0) {
      if (moves_)
        std::ranges::copy(parts_.variables.parameters().values(), start_.values().begin());
      round_.clear();
      mine_ = {};
    }
    missed_.reset();
    const auto progress = alone_.begin(step);
    return parts_.variables.needs_all_gradients() ? Base::Progress::none : progress;
  }

  void ready(std::size_t count) override { alone_.ready(count); }

  bool finish() override {
    StatusBlock& status = parts_.workspace.status();
    if (parts_.variables.clips_by_norm() && step_.makes_update(status.values()))
      parts_.variables.norms().compute_part(
          std::span<const T>(parts_.workspace.gradients().values()), 0, 1);
    const bool has_updated = alone_.finish();
    mine_.steps += step_.has_batch ? 1 : 0;
    mine_.updates += has_updated ? 1 : 0;
    round_.accumulate(status);
    round_[StatusBlock::has_next] = status[StatusBlock::has_next];
    if (++alone_steps_ < parts_.variables.synchronization().steps() && !step_.ends_epoch)
      return has_updated;

    if (step_.stop_on_non_finite && status[StatusBlock::non_finite] > 0)
      parts_.workspace.undo_step();
    else
      parts_.workspace.end_step();
    std::ranges::copy(round_.values(), status.values().begin());
    const bool changes = moves_ ? meet(has_updated) : has_updated;
    const std::int64_t most =
        moves_ ? std::ranges::max(ranks_, {}, &Done::steps).steps : mine_.steps;
    missed_ = std::max<std::int64_t>(0, most - std::exchange(alone_steps_, 0));
    return changes;
  }

  [[nodiscard]] std::optional<std::int64_t> missed_steps() const override { return missed_; }

 private:
  /// What a rank has done in a round.
  struct Done {
    std::int64_t steps = 0;
    std::int64_t updates = 0;
  };

  // Returns whether the parameters have changed since the round began.
  bool meet(bool has_updated) {
    auto& workspace = parts_.workspace;
    auto& collective = parts_.replica.collective();
    if (has_updated && !workspace.constraints.empty())
      workspace.constraints.apply(parts_.variables.parameters().slices(), 0, 1);
    const std::span<T> moved = workspace.gradients().values();
    move_away(moved);
    {
      const auto begin = Trace::Clock::now();
      const TraceSpan span(step_.trace, TracePart::collective);
      collective.all_gather(std::as_bytes(std::span(&mine_, 1)),
                            std::as_writable_bytes(std::span(ranks_)));
      collective.all_reduce(workspace.pack_status(), moved);
      workspace.take_status(collective.size());
      workspace.in_collective += Trace::Clock::now() - begin;
    }
    const auto trained =
        std::ranges::count_if(ranks_, [](const Done& done) { return done.updates > 0; });
    if (trained == 0) return false;
    update(moved, T(1) / static_cast<T>(trained));
    if (parts_.variables.has_averages()) average(T(1) / static_cast<T>(trained));
    return true;
  }

  // moved = where the round began - where this rank is.
  void move_away(std::span<T> moved) const {
    kernels::sweep(
        moved.size(),
        [](auto& to, const auto& from, const auto& now) LOCKSTEP_KERNEL_LAMBDA { to = from - now; },
        moved.data(), static_cast<const T*>(start_.values().data()),
        static_cast<const T*>(parts_.variables.parameters().values().data()));
  }

  // `factor` turns the sum of all ranks into a mean.
  void update(std::span<const T> moved, T factor) const {
    const TraceSpan span(step_.trace, TracePart::optimizer);
    const Synchronization& outer = parts_.variables.synchronization();
    const T rate = static_cast<T>(outer.learning_rate()), old = static_cast<T>(outer.momentum());
    T* const to = parts_.variables.parameters().values().data();
    const T* const from = start_.values().data();
    T* const momentum = parts_.variables.outer_momentum().data();
    if (outer.momentum() == 0)
      return kernels::sweep(
          moved.size(),
          [=](auto& w, const auto& start, const auto& sum)
              LOCKSTEP_KERNEL_LAMBDA { w = start - rate * (factor * sum); },
          to, from, moved.data());
    if (outer.nesterov())
      return kernels::sweep(
          moved.size(),
          [=](auto& w, auto& m, const auto& start, const auto& sum) LOCKSTEP_KERNEL_LAMBDA {
            const auto g = factor * sum;
            m = old * m + g;
            w = start - rate * (g + old * m);
          },
          to, momentum, from, moved.data());
    kernels::sweep(
        moved.size(),
        [=](auto& w, auto& m, const auto& start, const auto& sum) LOCKSTEP_KERNEL_LAMBDA {
          m = old * m + factor * sum;
          w = start - rate * m;
        },
        to, momentum, from, moved.data());
  }

  // The moving averages of the weights become their mean.
  void average(T factor) const {
    auto& collective = parts_.replica.collective();
    if (collective.size() == 1) return;
    const std::span<T> averages = parts_.variables.averages();
    if (mine_.updates == 0) std::ranges::fill(averages, T(0));
    const TraceSpan span(step_.trace, TracePart::collective);
    collective.all_reduce(averages, ReduceOp::sum);
    kernels::sweep(
        averages.size(), [=](auto& mean) LOCKSTEP_KERNEL_LAMBDA { mean *= factor; },
        averages.data());
  }

  AloneUpdater<T> alone_;
  const std::string name_;
  const bool moves_;  // at a meeting
  Arena<T> start_;    // the parameters when the round began
  StatusBlock round_;
  std::vector<Done> ranks_;
  Done mine_;
  std::int64_t alone_steps_ = 0;  // since the ranks last met, including steps without data
  std::optional<std::int64_t> missed_;
  UpdateStep step_;
};

}}}  // namespace lockstep::detail

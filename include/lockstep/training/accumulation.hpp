// Accumulation: steps that wait for one update (gradient_accumulation_steps), when an epoch or fit
// ends between them.
#pragma once

#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/training/fit.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A state that is saved within a window of steps is that before it.
template <class T>
class Accumulation final : public FitPart<T> {
 public:
  explicit Accumulation(FitState<T>& fit) : fit_(fit) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "accumulation"; }

  void before_step(FitRank<T>& rank) override {
    if (rank.is_leader && !rank.continues && fit_.callbacks.has().in_step())
      fit_.window.callbacks_before = fit_.callbacks.save();
  }

  /// What the steps of a window that is cut off have left goes into Variables.
  void end_steps(FitRank<T>& rank) override {
    if (!rank.continues) return;
    rank.updater->carry(rank.accumulated);
    rank.continues = false;
    if (!rank.is_leader) return;
    fit_.window.waiting = 0;
    rank.keep_place();
  }

  void leave(FitRank<T>& rank, const FitEnd& end) override {
    if (end.preemption != ExitCode::success && rank.continues) rank.model.workspace.undo_step();
  }

 private:
  FitState<T>& fit_;
};

}}}  // namespace lockstep::detail

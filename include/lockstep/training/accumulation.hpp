// Accumulation (gradient_accumulation_steps): what happens to an open window of steps when a state
// is saved, or an epoch or fit ends.
#pragma once

#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/training/fit.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A state that is saved within a window of steps is the one from before the window.
template <class T>
class Accumulation final : public FitPart<T> {
 public:
  explicit Accumulation(FitState<T>& fit) : fit_(fit) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "accumulation"; }

  void before_step(FitRank<T>& rank) override {
    if (rank.is_leader && !rank.continues && fit_.callbacks.has().in_step())
      fit_.window.callbacks_before = fit_.callbacks.save();
  }

  /// Stores the gradients of a window that is cut off in Variables.
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

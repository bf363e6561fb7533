// FitLoop: the epochs of one call of fit.
#pragma once

#include <optional>

#include "lockstep/callbacks/callback_hooks.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/step/parts.hpp"
#include "lockstep/step/status_block.hpp"
#include "lockstep/training/fit_options.hpp"
#include "lockstep/training/history.hpp"
#include "lockstep/training/running_fit.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// One call of fit. The object is shared by the replicas of a process; `run` is what each of them
/// does.
template <class T>
class FitLoop {
  using Loader = BatchLoader<T>;

 public:
  FitLoop(Trainer<T>& trainer, const AnyDataset& train, const FitOptions& options,
          CallbackHooks& callbacks)
      : fit_(trainer, train, options, callbacks), trainer_(trainer), train_(train) {}

  /// This fit as its callbacks see it.
  [[nodiscard]] Training& training() noexcept { return fit_; }

  /// What fit returns. Throws Preempted when it was. (Not thrown by `run`: a strategy would take
  /// that for the failure of this worker and tell the others.)
  [[nodiscard]] History take_history();

  /// What each replica runs; ranks stay in step because every decision is taken from reduced
  /// figures.
  void run(AnyReplica& replica);

  /// After a failure of `run`: returns when it makes sense to connect anew and to run again; else
  /// throws the failure, with the step.
  void survive(const CollectiveError& error);

  /// Whether `run` has ended because a worker has come, and all go on in another world; the state
  /// is kept for it.
  [[nodiscard]] bool goes_on_elsewhere();

  /// The strategy is connected anew, perhaps to other workers, and this one may have another place.
  void take_place();

 private:
  void train(AnyReplica& replica, ActivityBoard* board);
  void decide_plan(AnyReplica& replica);
  void decide_exchanges(AnyReplica& replica);
  StatusBlock validate(AnyReplica& replica, Loader& data, int epoch);
  void end_epoch(int epoch, const StatusBlock& running, const StatusBlock* validated);
  Requests complete_epoch(AnyReplica& replica, int epoch, bool finished);
  void preempt(AnyReplica& replica, ExitCode code);
  void leave_world(AnyReplica& replica);
  void agree_on_parameters(AnyReplica& replica);

  RunningFit<T> fit_;
  Trainer<T>& trainer_;
  const AnyDataset& train_;
  bool has_validated_ = false;
  ExitCode preempted_ = ExitCode::success;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#include "lockstep/training/fit_loop.ipp"

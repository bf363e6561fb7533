// EpochSteps: the steps of one epoch.
#pragma once

#include <cstdint>

#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/step/parts.hpp"
#include "lockstep/step/status_block.hpp"
#include "lockstep/step/updater.hpp"
#include "lockstep/training/position.hpp"
#include "lockstep/training/running_fit.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// How an epoch's steps have ended.
struct EpochEnd {
  bool finished = false;  ///< training has ended with them
  ExitCode preemption = ExitCode::success;
  bool leaves_world = false;  ///< all workers go on in another world
};

/// The steps of one epoch on one replica, with the hooks of batches. Ranks stay in step because
/// every decision is taken from reduced figures.
template <class T>
class EpochSteps {
 public:
  /// `at` and `running`, the sums of the epoch, go on from where they are.
  EpochSteps(RunningFit<T>& fit, const Parts<T>& parts, Updater<T>& updater, BatchLoader<T>& data,
             TrainingPosition& at, StatusBlock& running);

  EpochEnd run();

 private:
  void begin_step(const Activity& place);
  [[nodiscard]] bool make_step();
  [[nodiscard]] bool have_met();
  void end_step_alone(const Activity& place);
  [[nodiscard]] ExitCode end_step_together(const Activity& place, bool has_updated);
  void close_window();
  [[nodiscard]] EpochEnd end() const;
  void keep_place(const Requests& asked);
  void tell_place(ParameterServers& servers);

  RunningFit<T>& fit_;
  const Parts<T>& parts_;
  AnyReplica& replica_;
  Updater<T>& updater_;
  BatchLoader<T>& data_;
  const int epoch_;
  TrainingPosition& at_;
  StatusBlock& running_;
  const bool is_leader_;
  Trace* const trace_;
  ActivityBoard* const board_;
  const std::int64_t window_;  // steps for one update
  std::int64_t iteration_;
  std::int64_t accumulated_;     // steps made in the open window
  std::int64_t alone_ = 0;       // steps since all ranks last met
  bool continues_ = false;       // the open window needs more steps
  bool has_more_ = true;         // some rank has more data
  bool stops_ = false;           // all ranks have agreed to stop
  bool leaves_world_ = false;    // all ranks have agreed to leave the world
  TrainingPosition next_place_;  // what parameter servers keep for this rank
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#include "lockstep/training/epoch_steps.ipp"

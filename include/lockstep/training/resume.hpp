// How a fit goes on from a saved state, or after a peer was lost.
#pragma once

#include "lockstep/collectives/error.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/training/position.hpp"
#include "lockstep/training/running_fit.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Called by all ranks before the first step: takes over the state of a survivor, or the chief's
/// saved state where a callback has found one, or the chief's variables.
template <class T>
void resume(RunningFit<T>& fit, AnyReplica& replica);

/// Called by all ranks: finds the place in the data of a run whose global batches may have had
/// another size. Where epochs are whole passes over the data, the step of the epoch follows the
/// place; where they have a number of steps, that number goes on.
template <class T>
void resume_in_data(const RunningFit<T>& fit, AnyReplica& replica, BatchLoader<T>& data,
                    TrainingPosition& at);

/// Keeps the state for the workers that are connected next. `is_whole`: all have made the same step
/// and, where they share out updates, brought the slots together. A signal ends the process until
/// then.
template <class T>
void keep_for_others(RunningFit<T>& fit, bool is_whole);

/// A peer was lost: returns when it makes sense to connect anew and to run again; else throws the
/// failure, with the step.
template <class T>
void survive(RunningFit<T>& fit, const CollectiveError& error);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#include "lockstep/training/resume.ipp"

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/auto_shard_policy.hpp"
#include "lockstep/data/shard_decision.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/model_state.hpp"
#include "lockstep/training/resume.hpp"
#include "lockstep/training/saved_data.hpp"
#include "lockstep/training/served_fit.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Called by the chief's leader, before the saved state is in force.
template <class T>
void warn_of_other_data(const RunningFit<T>& fit, const TrainingState& saved) {
  std::optional<std::uint64_t> seed = fit.trainer().given_seed();
  if (seed != fit.trainer().variables().seed) seed.reset();  // another one was restored before
  const std::string differences = saved_differences(saved, fit.data, seed);
  if (differences.empty()) return;
  log_line(concat({"warning: fit: the saved training has ", differences,
                   ". It goes on at the saved place with the saved seed, in the data of this "
                   "program; to train from the beginning, delete what it was restored from"}));
}

/// Called by the leader. `is_from_file`: else it is the state of a worker that survived.
template <class T>
void take_over(RunningFit<T>& fit, const std::vector<std::byte>& saved, bool is_from_file) {
  if (fit.recovery.decode == nullptr)
    throw ConfigurationError(
        "fit: the chief restores a saved state, this worker has no callback that can: start "
        "the same program on every worker");
  TrainingState state = fit.recovery.decode(saved);
  if (is_from_file && fit.is_chief()) warn_of_other_data(fit, state);
  restore_state(fit.trainer(), state);
  fit.at = TrainingPosition::take(state, fit.metric_state());
  fit.callbacks.restore(state.callbacks);
  if (!fit.is_chief()) return;
  if (fit.at.epoch > fit.options.epochs)
    log_line(
        concat({"fit: nothing to do: the restored training is in epoch ", fit.at.epoch + 1,
                ", and .epochs is ", fit.options.epochs, "; what it was restored from stays"}));
  else if (fit.at.has_ended() || fit.at.epoch == fit.options.epochs)
    log_line(concat(
        {"fit: nothing to do: the restored training came to its end after epoch ", fit.at.epoch}));
}

/// Called by the leader. `reason`: why the chief's saved state cannot be read.
inline void go_on_without_backup(const std::exception_ptr& reason, bool has_state) {
  if (!has_state) std::rethrow_exception(reason);
  try {
    std::rethrow_exception(reason);
  } catch (const std::exception& error) {
    log_line(concat({"warning: ", error.what(),
                     ". It is not needed now: training goes on from the state of those that were "
                     "there before"}));
  }
}

/// Without a saved state, a worker goes on with the slots that it has: they must be of one run. And
/// none goes on after a loss, which may have come when some of the parameters were updated, or
/// within a round.
template <class T>
void check_slots(RunningFit<T>& fit, AnyReplica& replica) {
  Trainer<T>& trainer = fit.trainer();
  if (!trainer.is_state_spread()) return;
  std::array<std::int64_t, 2> most{trainer.variables().iterations, -trainer.variables().iterations};
  replica.collective().all_reduce(std::span<std::int64_t>(most), ReduceOp::max);
  const bool is_known = any_rank(replica, fit.recovery.is_begun);
  const bool in_rounds = trainer.variables().is_in_rounds();
  if (!is_known && (in_rounds || most[0] == -most[1] || trainer.program().layout().slots == 0))
    return;
  try {
    replica.collective().barrier();  // none throws before every other one knows
  } catch (const CollectiveError&) {
  }
  throw Error(concat({"fit: with ",
                      in_rounds ? trainer.variables().synchronization().description()
                                : std::string("sharded_updates"),
                      ", a worker that was lost has taken ",
                      in_rounds ? "what its optimizer has learnt" : "its share of the update",
                      " along, and there is no backup to go on from (workers have made ", -most[1],
                      " to ", most[0],
                      " updates): start all workers again; a BackupAndRestore with a smaller "
                      "save_freq has a backup sooner"}),
              ExitCode::lost_peer);
}

/// The number of the first pass over the data. If epochs are whole passes, those before
/// initial_epoch count as made, even for a model that has not made them.
template <class T>
std::int64_t first_pass(const RunningFit<T>& fit) {
  return std::max(fit.trainer().variables().next_pass,
                  fit.plan.new_pass_each_epoch ? std::int64_t{fit.options.initial_epoch} : 0);
}

template <class T>
void resume(RunningFit<T>& fit, AnyReplica& replica) {
  Recovery& recovery = fit.recovery;
  const bool leader = replica.local_rank() == 0;
  std::vector<std::byte> saved = recovery.survivor.furthest(replica.collective(), leader);
  const bool is_from_file = saved.empty();
  if (is_from_file)
    saved = bytes_from_chief(replica.collective(),
                             leader ? std::move(recovery.pending) : std::vector<std::byte>{});
  else if (leader)
    recovery.pending = {};
  fit.call_back(replica, {.call = "fit"}, [&] {
    if (const auto reason = std::exchange(recovery.unreadable, nullptr))
      go_on_without_backup(reason, !saved.empty());
    if (recovery.decode != nullptr && fit.is_chief()) fit.data = SavedData::of(fit.train, fit.plan);
    if (!saved.empty()) take_over(fit, saved, is_from_file);
  });
  if (saved.empty()) {
    check_slots(fit, replica);
    fit.trainer().broadcast_from_chief(replica);
    if (leader) fit.at.data_iteration = first_pass(fit);
    replica.team_barrier();
  }
  if (ParameterServers* const servers = replica.parameter_servers())
    if (auto place = join_servers(fit.trainer(), *servers, fit.at, fit.plan.signature))
      fit.at = std::move(*place);
  if (leader && replica.parameter_servers() != nullptr && fit.at.epoch > fit.options.epochs)
    throw ConfigurationError(
        concat({"fit: the parameter servers go on with a training that is in epoch ",
                fit.at.epoch + 1, ", and .epochs is ", fit.options.epochs,
                ": give more epochs, or start the servers with another backup_dir. Their backup is "
                "kept"}));
  if (leader) {
    fit.window.waiting = 0;
    fit.requests.take_signals_again();
    if (recovery.is_begun) fit.history.truncate(static_cast<int>(fit.at.epoch));
    if (fit.is_elastic() && !saved.empty())
      log_line(concat({"fit: ", fit.trainer().strategy().elastic_world()->description(),
                       ", from epoch ", fit.at.epoch + 1, ", step ", fit.at.step + 1}));
    else if (recovery.is_begun)
      log_line(concat({"fit: all workers are together again, and go on at epoch ", fit.at.epoch + 1,
                       ", step ", fit.at.step + 1}));
    recovery.survivor.forget();
    recovery.is_begun = true;
  }
}

/// Throws on all ranks when the data end before the saved place, where all workers share each batch
/// and batches have the saved size.
inline void check_place(const FitPlan& plan, const FitOptions& options,
                        const TrainingPosition& at) {
  const bool has_more_to_do = !at.has_ended() && at.epoch < options.epochs;
  const bool is_known = !plan.steps_may_differ && plan.steps >= 0;
  if (!has_more_to_do || !is_known || at.data_position <= plan.steps) return;
  throw ConfigurationError(concat(
      {"fit: the saved training has used ", at.data_position,
       " global batches of a pass over its data, and a pass over the data of this program has ",
       plan.steps,
       ": go on with the data of the saved training, or delete what it was restored from to train "
       "from the beginning"}));
}

template <class T>
void resume_in_data(const RunningFit<T>& fit, AnyReplica& replica, BatchLoader<T>& data,
                    TrainingPosition& at) {
  const FitPlan& plan = fit.plan;
  if (plan.counts_samples) {
    at.data_position *= std::exchange(at.batch, 1);
    return;
  }
  std::int64_t batch = 0;
  if (replica.collective().rank() == 0) {
    data.begin({.seed = fit.trainer().variables().seed, .number = at.data_iteration});
    if (data.next()) batch = static_cast<std::int64_t>(data.batch_size());
  }
  batch = from_chief(replica.collective(), batch);
  if (batch == 0 || batch == at.batch) {
    // Where workers do not share each batch, another number of them makes another number of steps.
    const auto policy =
        decide_shard_policy(fit.train.auto_shard_policy(), fit.train.num_files(), 2).policy;
    if (policy == AutoShardPolicy::data) check_place(plan, fit.options, at);
    return;
  }
  const std::int64_t samples = at.data_position * at.batch;
  at.data_position = samples / batch;
  if (plan.target && plan.new_pass_each_epoch)
    at.data_position = std::min(at.data_position, *plan.target);
  if (plan.new_pass_each_epoch) at.step = at.data_position;
  const bool counted_samples = at.batch == 1;  // batches may have had several sizes
  const bool is_exact = at.data_position * batch == samples;
  if (replica.collective().rank() == 0 && !(counted_samples && is_exact))
    log_line(concat({"warning: fit: the saved run ",
                     counted_samples ? std::string("is in the middle of a global batch")
                                     : concat({"had global batches of ", at.batch, " samples"}),
                     ", this program asks for ", batch, " and goes on with them, from sample ",
                     at.data_position * batch, " of the data (of ", samples, " that were used)"}));
  at.batch = batch;
}

template <class T>
void keep_for_others(RunningFit<T>& fit, bool is_whole) {
  Recovery& recovery = fit.recovery;
  const Trainer<T>& trainer = fit.trainer();
  if (!trainer.is_state_spread() || (is_whole && fit.is_chief() && trainer.has_all_slots()))
    recovery.survivor.keep([&] { return fit.state(); });
  else if (fit.is_chief() &&
           recovery.read_backup)  // what the one that is lost had to update is lost, too
    recovery.pending = recovery.read_backup(state_bytes(fit.trainer()));
  fit.requests.leave_signals();
}

template <class T>
void survive(RunningFit<T>& fit, const CollectiveError& error) {
  Trainer<T>& trainer = fit.trainer();
  Recovery& recovery = fit.recovery;
  note_failure(error.failure());
  const bool has_waited = error.failure().operation == "start-up";  // in vain
  if (!recovery.survivor.survives(error) || !recovery.is_begun || has_waited) {
    CollectiveFailure failure = error.failure();
    failure.step = trainer.variables().iterations;
    throw CollectiveError(std::move(failure));
  }
  for (std::size_t i = 0; i < trainer.replicas(); ++i) trainer.workspace(i).undo_step();
  trainer.forget_rank_state();  // some of it is lost
  keep_for_others(fit, false);
  log_line(
      concat({error.what(),
              trainer.is_state_spread()
                  ? "; this worker waits for the others, and goes on from the last backup"
              : fit.is_elastic() ? "; this worker keeps its state, and waits for the others"
                                 : "; this worker keeps its state and waits until all are together "
                                   "again"}),
      LogLevel::warning);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

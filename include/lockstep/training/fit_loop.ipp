#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/step/residual_scope.hpp"
#include "lockstep/step/updaters/choose_updater.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/epoch_steps.hpp"
#include "lockstep/training/evaluate_pass.hpp"
#include "lockstep/training/fit_loop.hpp"
#include "lockstep/training/hook_errors.hpp"
#include "lockstep/training/rank_times.hpp"
#include "lockstep/training/resume.hpp"
#include "lockstep/training/served_fit.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
History FitLoop<T>::take_history() {
  if (preempted_ == ExitCode::success) return std::move(fit_.history);
  throw Preempted(concat({"fit: stopped by ", fit_.requests.signal_name(preempted_), " at epoch ",
                          fit_.at.epoch + 1, ", step ", fit_.at.step}),
                  preempted_);
}

template <class T>
void FitLoop<T>::run(AnyReplica& replica) {
  ActivityBoard* const board =
      replica.local_rank() == 0 ? activity_board(replica.collective()) : nullptr;
  const ActivityScope activity(board, {.call = "fit"});
  try {
    train(replica, board);
  } catch (const std::bad_alloc&) {
    throw Error(concat({to_string(board != nullptr ? board->get() : Activity{.call = "fit"}),
                        ": out of memory", limits_text(Resource::memory)}));
  }
}

template <class T>
void FitLoop<T>::survive(const CollectiveError& error) {
  detail::survive(fit_, error);
}

template <class T>
bool FitLoop<T>::goes_on_elsewhere() {
  if (!std::exchange(fit_.recovery.leaves_world, false)) return false;
  keep_for_others(fit_, true);
  trainer_.release_slots();
  return true;
}

template <class T>
void FitLoop<T>::take_place() {
  if (!fit_.is_elastic()) return;
  fit_.plan = fit_.plan_for(train_);
  if (fit_.plan.steps_may_differ && fit_.is_chief())
    log_line(
        "warning: fit: the workers have changed, and share the training data by files, or not at "
        "all: in this pass, some samples may come twice, and others not; take "
        "AutoShardPolicy::data");
  const bool was_chief = std::exchange(fit_.recovery.was_chief, fit_.is_chief());
  if (was_chief && !fit_.is_chief())
    abort_callbacks(fit_.callbacks, fit_);  // another one saves now
  fit_.recovery.begins_as_chief = !was_chief && fit_.is_chief();
  fit_.progress.emplace(fit_.is_chief() ? fit_.options.verbose : 0, fit_.options.epochs);
}

template <class T>
void FitLoop<T>::train(AnyReplica& replica, ActivityBoard* board) {
  const bool leader = replica.local_rank() == 0;
  const Parts<T> parts = trainer_.training_parts(replica);
  Loader data(trainer_.distribute_training(train_, replica),
              trainer_.program().layout().targets > 0);
  std::optional<Loader> validation;
  if (fit_.options.validation_data)
    validation.emplace(trainer_.distribute(fit_.options.validation_data, replica),
                       trainer_.program().layout().targets > 0);
  struct Reporting {  // the board may be destroyed before the callbacks
    CallbackHooks* callbacks;
    ~Reporting() {
      if (callbacks != nullptr) callbacks->report_to(nullptr);
    }
  } const reporting{leader ? &fit_.callbacks : nullptr};
  if (leader) fit_.callbacks.report_to(board);
  parts.workspace.non_finite = {};
  agree(replica.collective(), "fit", fit_.plan.signature);
  if (fit_.plan.steps_may_differ) decide_plan(replica);
  decide_exchanges(replica);
  const ResidualScope residuals(parts);
  const auto updater = choose_updater(parts);
  fit_.call_back(replica, {.call = "fit"}, [&] {
    if (fit_.recovery.is_begun && !std::exchange(fit_.recovery.begins_as_chief, false)) return;
    if (trainer_.strategy().is_chief() && fit_.options.verbose == 2)
      log_line(concat({"data sharding: ", data.policy_text(), "; updates: ", updater->name()}));
    if (fit_.profile)
      write_profile(*fit_.profile, fit_.options.profile,
                    fit_.worker_index());  // a bad path ends it here
    fit_.callbacks.on_train_begin(fit_);
  });
  resume(fit_, replica);

  TrainingPosition at = fit_.at;
  if (at.batch > 0) resume_in_data(fit_, replica, data, at);
  bool begun = false;
  bool finished = at.has_ended();
  if (at.is_epoch_open) {  // a peer was lost while this epoch was completed
    const Requests asked = complete_epoch(replica, static_cast<int>(at.epoch) - 1, finished);
    if (asked.preemption != ExitCode::success) return preempt(replica, asked.preemption);
    finished = asked.stop || finished;
    at.is_epoch_open = false;
  }
  for (int epoch = static_cast<int>(at.epoch); epoch < fit_.options.epochs && !finished; ++epoch) {
    fit_.call_back(replica, {.call = "fit", .epoch = epoch}, [&] {
      fit_.logs.clear();  // of the former epoch's validation
      if (trainer_.variables().shows_averages()) trainer_.variables().swap_averages();
      fit_.callbacks.on_epoch_begin(fit_, epoch);
      fit_.progress->begin_epoch(epoch, fit_.plan.target);
    });
    trainer_.rank_state().begin_steps(replica);
    if (!begun || fit_.plan.new_pass_each_epoch)
      data.begin({.seed = trainer_.variables().seed, .number = at.data_iteration});
    if (leader) trainer_.variables().next_pass = at.data_iteration + 1;
    if (!begun && at.data_position > 0) data.seek(at.data_position);
    begun = true;

    StatusBlock running(fit_.metric_state());
    std::copy(at.running.begin(), at.running.end(), running.values().begin());
    at.running.clear();
    const std::int64_t first_step = at.step;
    const auto begin = Trace::Clock::now();
    const EpochEnd end = EpochSteps<T>(fit_, parts, *updater, data, at, running).run();
    if (end.preemption != ExitCode::success) return preempt(replica, end.preemption);
    if (end.leaves_world) return leave_world(replica);
    finished = end.finished;
    const auto duration = Trace::Clock::now() - begin;
    if (leader && !fit_.plan.target && (first_step == 0 || !fit_.plan.counts_samples))
      fit_.plan.target = at.step;  // the progress bar learns it in the first epoch

    StatusBlock validated(fit_.metric_state());
    const bool validation_due = validation && fit_.options.validation_freq.due(epoch);
    if (validation_due) validated = validate(replica, *validation, epoch);
    if (validation_due && validated[StatusBlock::samples] == 0)
      throw DataError("fit: validation_data is empty");
    const std::int64_t steps = at.step - first_step;
    at.epoch = epoch + 1;
    at.step = 0;
    if (fit_.plan.new_pass_each_epoch) {
      ++at.data_iteration;
      at.data_position = 0;
    }
    const auto in_collective = std::exchange(parts.workspace.in_collective, {});
    std::vector<RankTime> times = gather_rank_times(replica.collective(), duration, in_collective);
    if (times.size() > 1 && leader && fit_.is_chief() && fit_.options.verbose == 2)
      log_line(rank_times_text(times, epoch, steps));
    if (leader) fit_.times = std::move(times);
    trainer_.gather_rank_state(replica);
    fit_.verify(replica);
    fit_.call_back(replica, {.call = "fit", .epoch = epoch}, [&] {
      end_epoch(epoch, running, validation_due ? &validated : nullptr);
      fit_.at = at;
      fit_.at.is_epoch_open = true;
    });
    if (fit_.profile) {
      Trace& trace = fit_.profile->trace(replica.local_rank());
      if (leader && fit_.is_chief()) log_line(profile_table(*fit_.profile, epoch, steps, duration));
      trace.clear_totals();
    }
    const Requests asked = complete_epoch(replica, epoch, finished);
    if (asked.preemption != ExitCode::success) return preempt(replica, asked.preemption);
    finished = asked.stop || finished;
  }
  if (ParameterServers* const servers = replica.parameter_servers())
    leave_servers(trainer_, *servers);
  fit_.gather_slots(replica);
  fit_.call_back(replica, {.call = "fit"}, [&] {
    fit_.has_set_parameters = false;
    trainer_.variables().take_averages();
    fit_.callbacks.on_train_end(fit_, fit_.logs);
    if (fit_.profile) finish_profile(*fit_.profile, fit_.options.profile, fit_.worker_index());
  });
  if (fit_.any_rank_has.train_end) agree_on_parameters(replica);
}

/// All replicas get the parameters that the chief's callbacks have set at the end of training, even
/// if those of another worker have decided otherwise.
template <class T>
void FitLoop<T>::agree_on_parameters(AnyReplica& replica) {
  try {
    if (any_rank(replica, replica.local_rank() == 0 && fit_.has_set_parameters))
      trainer_.broadcast_from_chief(replica);
  } catch (const CollectiveError&) {  // of a rank that is lost when training has ended
  }
}

/// The other replicas look at the decision after the barrier of resume.
template <class T>
void FitLoop<T>::decide_plan(AnyReplica& replica) {
  FitPlan decided = fit_.plan;
  decided.decide(longest_pass(replica.collective(), fit_.plan.steps), fit_.options.steps_per_epoch);
  if (replica.local_rank() == 0) fit_.plan = std::move(decided);
}

/// Ranks may have other callbacks than each other: what those of one need, all take part in. (The
/// other replicas look at it after the next barrier.)
template <class T>
void FitLoop<T>::decide_exchanges(AnyReplica& replica) {
  const auto& has = fit_.callbacks.has();
  std::array<std::int64_t, 4> any{has.stop_in_batch, has.epoch_end, has.train_end,
                                  has.complete_state};
  replica.collective().all_reduce(std::span<std::int64_t>(any), ReduceOp::max);
  if (replica.local_rank() != 0) return;
  fit_.any_rank_has.stop_in_batch = any[0] > 0;
  fit_.any_rank_has.epoch_end = any[1] > 0;
  fit_.any_rank_has.train_end = any[2] > 0;
  fit_.any_rank_has.complete_state = any[3] > 0;
}

/// The callbacks have had their on_epoch_end: all agree on what was asked, and the state is
/// complete.
template <class T>
Requests FitLoop<T>::complete_epoch(AnyReplica& replica, int epoch, bool finished) {
  const Requests asked = fit_.ask_all(replica);
  if (fit_.any_rank_has.epoch_end) fit_.verify(replica);  // they may have changed the model
  fit_.call_back(replica, {.call = "fit", .epoch = epoch}, [&] {
    fit_.at.is_epoch_open = false;
    if (asked.stop || finished) fit_.at.set_ended(fit_.metric_state());
    fit_.callbacks.on_epoch_complete(fit_, epoch);
  });
  return asked;
}

/// All ranks have agreed to leave.
template <class T>
void FitLoop<T>::preempt(AnyReplica& replica, ExitCode code) {
  trainer_.gather_rank_state(replica);
  fit_.verify(replica);
  fit_.call_back(replica, {.call = "fit"}, [&] {
    note_stopping();
    fit_.requests.answer_signals();
    fit_.callbacks.on_preemption(fit_);
    if (fit_.profile) finish_profile(*fit_.profile, fit_.options.profile, fit_.worker_index());
    preempted_ = code;
  });
  try {
    // Leaving cuts connections: not before every rank has come out of the reduction that carried
    // the request, and the chief has saved.
    replica.collective().barrier();
  } catch (const CollectiveError&) {  // a rank has left already
  }
}

/// All have made the same step, and go on in another world.
template <class T>
void FitLoop<T>::leave_world(AnyReplica& replica) {
  if (replica.local_rank() == 0) fit_.recovery.leaves_world = true;
  try {
    // Not before every rank has come out of the reduction that carried the request.
    replica.collective().barrier();
  } catch (const CollectiveError&) {  // a rank has left already
  }
}

template <class T>
StatusBlock FitLoop<T>::validate(AnyReplica& replica, Loader& data, int epoch) {
  const Parts<T> parts = trainer_.parts(replica);
  if (replica.local_rank() != 0)
    return evaluate_pass<T>(parts, data, fit_.options.validation_steps, nullptr);
  const std::string_view where = std::exchange(has_validated_, true) ? "" : "fit: validation_data";
  const Activity place{.call = "fit, validation", .epoch = epoch};
  TestHooks<T> hooks(fit_, trainer_.program(), fit_.callbacks, place);
  return evaluate_pass(parts, data, fit_.options.validation_steps, &hooks, where);
}

template <class T>
void FitLoop<T>::end_epoch(int epoch, const StatusBlock& running, const StatusBlock* validated) {
  fit_.logs.clear();
  report(trainer_.program(), running, fit_.logs);
  if (validated != nullptr) report(trainer_.program(), *validated, fit_.logs, std::string("val_"));
  const double rate = trainer_.variables().learning_rate();
  if (trainer_.variables().has_schedule() || rate != trainer_.program().initial_learning_rate())
    fit_.logs.set("learning_rate", rate);
  fit_.callbacks.on_epoch_end(fit_, epoch, fit_.logs);
  fit_.progress->end_epoch(fit_.logs);
  fit_.history.append(epoch, fit_.logs);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

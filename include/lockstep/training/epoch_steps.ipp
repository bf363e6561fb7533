#pragma once

#include <algorithm>
#include <optional>

#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/trace_span.hpp"
#include "lockstep/step/non_finite.hpp"
#include "lockstep/step/step.hpp"
#include "lockstep/training/epoch_steps.hpp"
#include "lockstep/training/served_fit.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
EpochSteps<T>::EpochSteps(RunningFit<T>& fit, const Parts<T>& parts, Updater<T>& updater,
                          BatchLoader<T>& data, TrainingPosition& at, StatusBlock& running)
    : fit_(fit),
      parts_(parts),
      replica_(parts.replica),
      updater_(updater),
      data_(data),
      epoch_(static_cast<int>(at.epoch)),
      at_(at),
      running_(running),
      is_leader_(replica_.local_rank() == 0),
      trace_(fit.profile ? &fit.profile->trace(replica_.local_rank()) : nullptr),
      board_(is_leader_ ? activity_board(replica_.collective()) : nullptr),
      window_(fit.trainer().variables().accumulation_steps()),
      iteration_(parts.variables.iterations),
      accumulated_(fit.trainer().variables().accumulated_steps) {
  if (is_leader_) fit_.window.accumulated = accumulated_;
}

template <class T>
EpochEnd EpochSteps<T>::run() {
  // Resumed after the last step of an epoch: there are no more. After the step in which all have
  // agreed to stop: they do.
  has_more_ = at_.step == 0 || any_rank(replica_, data_.has_next());
  stops_ = running_[StatusBlock::stop] > 0;
  const std::optional<std::int64_t>& limit = fit_.options.steps_per_epoch;
  while (has_more_ && !stops_ && (!limit || at_.step < *limit)) {
    const Activity place{.call = "fit", .epoch = epoch_, .step = at_.step};
    begin_step(place);
    const bool has_updated = make_step();
    if (!have_met()) {
      parts_.variables.complete_update(++iteration_, has_updated);
      end_step_alone(place);
      continue;
    }
    const ExitCode preemption = end_step_together(place, has_updated);
    if (leaves_world_) return {.leaves_world = true};
    if (preemption == ExitCode::success) continue;
    if (continues_) parts_.workspace.undo_step();  // the state that is saved is that before it
    return {.preemption = preemption};
  }
  if (continues_) close_window();
  return end();
}

template <class T>
void EpochSteps<T>::begin_step(const Activity& place) {
  const auto& has = fit_.callbacks.has();
  if (board_ != nullptr) board_->set(place);
  // A state that is saved within a window is that before it.
  if (is_leader_ && window_ > 1 && !continues_ && has.in_step())
    fit_.window.callbacks_before = fit_.callbacks.save();
  if (has.train_batch_begin)
    fit_.call_back(
        replica_, place, [&] { fit_.callbacks.on_train_batch_begin(fit_, at_.step); }, trace_);
  if (is_leader_) fit_.forget_verified();
  if (ParameterServers* const servers = replica_.parameter_servers()) tell_place(*servers);
}

/// Returns whether parameters have changed.
template <class T>
bool EpochSteps<T>::make_step() {
  const FitOptions& options = fit_.options;
  const bool ends_round = alone_ + 1 >= parts_.variables.synchronization().steps() ||
                          (options.steps_per_epoch && at_.step + 1 >= *options.steps_per_epoch);
  return train_step(parts_, updater_, data_,
                    {.iteration = iteration_,
                     .accumulated = accumulated_,
                     .continues = continues_,
                     .ends_round = ends_round,
                     .requests = fit_.requests_of(is_leader_),
                     .stop_on_non_finite = options.stop_on_non_finite,
                     .class_weight = fit_.plan.class_weight,
                     .trace = trace_,
                     .board = board_});
}

/// Whether the ranks have met in the step that was made.
template <class T>
bool EpochSteps<T>::have_met() {
  const std::optional<std::int64_t> together = updater_.steps_together();
  // This rank's data may have ended before. (Not where places are in samples: all ranks share each
  // batch there.)
  if (together && *together > 0) {
    const std::int64_t missed = *together - alone_ - 1;
    iteration_ += missed;
    at_.step += missed;
    at_.data_position += missed;
  }
  alone_ = together ? 0 : alone_ + 1;
  return together.has_value();
}

template <class T>
void EpochSteps<T>::end_step_alone(const Activity& place) {
  const auto& has = fit_.callbacks.has();
  const std::int64_t batch = at_.step++;
  const auto size = static_cast<std::int64_t>(data_.batch_size());
  at_.batch = fit_.plan.counts_samples ? 1 : std::max(at_.batch, size);
  at_.data_position += fit_.plan.counts_samples ? size : 1;
  if (is_leader_) fit_.requests.verify(false);  // it was asked in this step
  if (has.train_batch_end)
    fit_.call_back(
        replica_, place, [&] { fit_.callbacks.on_train_batch_end(fit_, batch, fit_.logs); },
        trace_);
  if (is_leader_) {
    const TraceSpan span(trace_, TracePart::callbacks);
    fit_.progress->update(at_.step, fit_.logs);
  }
  if (has.train_batch_complete)
    fit_.call_back(
        replica_, place, [&] { fit_.callbacks.on_train_batch_complete(fit_, batch); }, trace_);
}

/// Returns how all have agreed to leave: success for not at all.
template <class T>
ExitCode EpochSteps<T>::end_step_together(const Activity& place, bool has_updated) {
  const auto& has = fit_.callbacks.has();
  const StatusBlock& status = parts_.workspace.status();
  if (status[StatusBlock::non_finite] > 0 && !parts_.workspace.non_finite.is_reported)
    report_non_finite(parts_, fit_.options.stop_on_non_finite, epoch_, at_.step);
  if (status[StatusBlock::samples] == 0) {
    has_more_ = status[StatusBlock::has_next] > 0;
    if (!has_more_ && at_.step == 0 && at_.data_position == 0)
      throw DataError("fit: the training data is empty");
    // (AutoShardPolicy::off: a last batch with fewer samples than parts. It was no step.)
    if (has_more_) ++at_.data_position;
    return ExitCode::success;
  }
  running_.accumulate(status);
  continues_ = ++accumulated_ < window_;
  if (!continues_) {
    ++iteration_;
    accumulated_ = 0;
  }
  const std::int64_t batch = at_.step++;
  const auto size = static_cast<std::int64_t>(data_.batch_size());
  if (fit_.plan.counts_samples)
    at_.batch = 1;
  else if (at_.data_position == 0 || at_.batch == 0)  // what resume_in_data compares
    at_.batch = size;
  // Not data_.position(): a rank whose data have ended stays behind.
  at_.data_position += fit_.plan.counts_samples ? size : 1;
  has_more_ = status[StatusBlock::has_next] > 0;
  Requests asked = status.asked();
  if (!continues_ && (is_leader_ || parts_.variables.is_in_rounds()))
    parts_.variables.complete_update(iteration_, has_updated);
  if (is_leader_) {
    fit_.requests.verify(false);  // it was asked in this step
    fit_.window.accumulated = accumulated_;
    fit_.window.waiting = continues_ ? fit_.window.waiting + 1 : 0;
    report(fit_.trainer().program(), running_, fit_.logs);
    if (!continues_) keep_place(asked);  // the step counts even if a peer is lost in what follows
  }
  if (has.train_batch_end)
    fit_.call_back(
        replica_, place, [&] { fit_.callbacks.on_train_batch_end(fit_, batch, fit_.logs); },
        trace_);
  if (fit_.any_rank_has.stop_in_batch) {
    const Requests since = fit_.ask_all(replica_);
    if (since.stop) running_[StatusBlock::stop] += 1;
    asked.add(since);
  }
  if (asked.verify) {
    fit_.trainer().gather_rank_state(replica_);
    fit_.verify(replica_);
  }
  stops_ = asked.stop;
  leaves_world_ = asked.regroup && !continues_ && !stops_ && asked.preemption == ExitCode::success;
  if (leaves_world_) {
    fit_.trainer().gather_rank_state(replica_);
    fit_.bring_slots_together(replica_);
  }
  if (is_leader_) {
    const TraceSpan span(trace_, TracePart::callbacks);
    fit_.progress->update(at_.step, fit_.logs);
    if (fit_.any_rank_has.stop_in_batch && !continues_) keep_place(asked);
  }
  if (has.train_batch_complete)
    fit_.call_back(
        replica_, place, [&] { fit_.callbacks.on_train_batch_complete(fit_, batch); }, trace_);
  return asked.preemption;
}

/// What the steps of a window that is cut off have left goes into Variables.
template <class T>
void EpochSteps<T>::close_window() {
  updater_.carry(accumulated_);
  if (!is_leader_) return;
  fit_.window.waiting = 0;
  keep_place({});
}

template <class T>
EpochEnd EpochSteps<T>::end() const {
  const FitOptions& options = fit_.options;
  if (stops_ && is_leader_) fit_.requests.stop();  // the request of any worker is now everyone's
  const bool more_wanted =
      options.steps_per_epoch && !stops_ &&
      (at_.step < *options.steps_per_epoch ||
       (!has_more_ && !fit_.plan.new_pass_each_epoch && epoch_ + 1 < options.epochs));
  if (has_more_ || !more_wanted) return {.finished = stops_};
  if (is_leader_ && fit_.is_chief())
    log_line(concat({"warning: fit: the data ran out, training ends after epoch ", epoch_ + 1, ": ",
                     options.epochs - options.initial_epoch, " epochs of ",
                     *options.steps_per_epoch, " steps need more batches; use repeat()"}));
  return {.finished = true};
}

/// Sets the place that a state saved from now on has, where a save may be asked for.
template <class T>
void EpochSteps<T>::keep_place(const Requests& asked) {
  const auto& has = fit_.callbacks.has();
  if (!has.train_batch_begin && !has.train_batch_end && !has.train_batch_complete &&
      asked.preemption == ExitCode::success && !fit_.recovery.survivor.is_enabled() && window_ == 1)
    return;
  fit_.at = at_;
  fit_.at.keep(running_);
}

/// The servers keep where this worker goes on after its next step. (Of the epoch's sums, those of
/// that step are left out: they are not known yet.)
template <class T>
void EpochSteps<T>::tell_place(ParameterServers& servers) {
  next_place_.epoch = at_.epoch;
  next_place_.step = at_.step + 1;
  next_place_.data_iteration = at_.data_iteration;
  next_place_.data_position = at_.data_position + 1;
  next_place_.batch = at_.batch;
  next_place_.keep(running_);
  encode_place(next_place_, servers.next_place);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

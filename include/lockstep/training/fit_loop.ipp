#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/step/non_finite.hpp"
#include "lockstep/step/residual_scope.hpp"
#include "lockstep/step/step.hpp"
#include "lockstep/step/updaters/choose_updater.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/evaluate_pass.hpp"
#include "lockstep/training/fit_loop.hpp"
#include "lockstep/training/hook_errors.hpp"
#include "lockstep/training/rank_times.hpp"
#include "lockstep/training/replica_checksums.hpp"
#include "lockstep/training/served_fit.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// True on every rank when `mine` is true on any.
inline bool any_rank(AnyReplica& replica, bool mine) {
  double count = mine ? 1 : 0;
  replica.collective().all_reduce(std::span<double>(&count, 1), ReduceOp::sum);
  return count > 0;
}

template <class T>
void FitLoop<T>::train(AnyReplica& replica, ActivityBoard* board) {
  const bool leader = replica.local_rank() == 0;
  const Parts<T> parts = trainer_.training_parts(replica);
  Loader data(trainer_.distribute_training(train_, replica),
              trainer_.program().layout().targets > 0);
  std::optional<Loader> validation;
  if (options_.validation_data)
    validation.emplace(trainer_.distribute(options_.validation_data, replica),
                       trainer_.program().layout().targets > 0);
  struct Reporting {  // the board may be destroyed before the callbacks
    CallbackHooks* callbacks;
    ~Reporting() {
      if (callbacks != nullptr) callbacks->report_to(nullptr);
    }
  } const reporting{leader ? &callbacks_ : nullptr};
  if (leader) callbacks_.report_to(board);
  parts.workspace.non_finite = {};
  agree(replica.collective(), "fit", plan_.signature);
  if (plan_.steps_may_differ) decide_plan(replica);
  decide_exchanges(replica);
  const ResidualScope residuals(parts);
  const auto updater = choose_updater(parts);
  call_back(replica, {.call = "fit"}, [&] {
    if (restored_) return;
    if (trainer_.strategy().is_chief() && options_.verbose == 2)
      log_line(concat({"data sharding: ", data.policy_text(), "; updates: ", updater->name()}));
    if (profile_)
      write_profile(*profile_, options_.profile, this->worker_index());  // a bad path ends it here
    callbacks_.on_train_begin(*this);
  });
  resume(replica);

  Position at = at_;
  if (at.batch > 0) take_up(replica, data, at);
  bool begun = false;
  bool finished = at.has_ended();
  if (at.is_epoch_open) {  // a peer was lost while this epoch was completed
    const Requests asked = complete_epoch(replica, static_cast<int>(at.epoch) - 1, finished);
    if (asked.preemption != ExitCode::success) return preempt(replica, asked.preemption);
    finished = asked.stop || finished;
    at.is_epoch_open = false;
  }
  for (int epoch = static_cast<int>(at.epoch); epoch < options_.epochs && !finished; ++epoch) {
    call_back(replica, {.call = "fit", .epoch = epoch}, [&] {
      logs_.clear();  // of the former epoch's validation
      if (trainer_.variables().shows_averages()) trainer_.variables().swap_averages();
      callbacks_.on_epoch_begin(*this, epoch);
      progress_.begin_epoch(epoch, plan_.target);
    });
    trainer_.rank_state().begin_steps(replica);
    if (!begun || plan_.new_pass_each_epoch)
      data.begin({.seed = trainer_.variables().seed, .number = at.data_iteration});
    if (leader) trainer_.variables().next_pass = at.data_iteration + 1;
    if (!begun && at.data_position > 0) data.seek(at.data_position);
    begun = true;

    Status running(metric_state());
    std::copy(at.running.begin(), at.running.end(), running.values().begin());
    at.running.clear();
    const std::int64_t first_step = at.step;
    const auto begin = Trace::Clock::now();
    const EpochEnd end = train_epoch(parts, *updater, data, epoch, at, running);
    if (end.preemption != ExitCode::success) return preempt(replica, end.preemption);
    finished = end.finished;
    const auto duration = Trace::Clock::now() - begin;
    if (leader && !plan_.target)
      plan_.target = at.step;  // the progress bar learns it in the first epoch

    Status validated(metric_state());
    const bool validation_due = validation && options_.validation_freq.due(epoch);
    if (validation_due) validated = this->validate(replica, *validation, epoch);
    if (validation_due && validated[Status::samples] == 0)
      throw DataError("fit: validation_data is empty");
    const std::int64_t steps = at.step - first_step;
    at.epoch = epoch + 1;
    at.step = 0;
    if (plan_.new_pass_each_epoch) {
      ++at.data_iteration;
      at.data_position = 0;
    }
    const auto in_collective = std::exchange(parts.workspace.in_collective, {});
    std::vector<RankTime> times = gather_rank_times(replica.collective(), duration, in_collective);
    if (times.size() > 1 && leader && this->is_chief() && options_.verbose == 2)
      log_line(rank_times_text(times, epoch, steps));
    if (leader) rank_times_ = std::move(times);
    trainer_.gather_rank_state(replica);
    verify(replica);
    call_back(replica, {.call = "fit", .epoch = epoch}, [&] {
      end_epoch(epoch, running, validation_due ? &validated : nullptr);
      at_ = at;
      at_.is_epoch_open = true;
    });
    if (profile_) {
      Trace& trace = profile_->trace(replica.local_rank());
      if (leader && this->is_chief()) log_line(profile_table(*profile_, epoch, steps, duration));
      trace.clear_totals();
    }
    const Requests asked = complete_epoch(replica, epoch, finished);
    if (asked.preemption != ExitCode::success) return preempt(replica, asked.preemption);
    finished = asked.stop || finished;
  }
  if (ParameterServers* const servers = replica.parameter_servers())
    leave_servers(trainer_, *servers);
  gather_slots(replica);
  call_back(replica, {.call = "fit"}, [&] {
    has_set_parameters_ = false;
    trainer_.variables().take_averages();
    callbacks_.on_train_end(*this, logs_);
    if (profile_) finish_profile(*profile_, options_.profile, this->worker_index());
  });
  if (has_train_end_hooks_) agree_on_parameters(replica);
}

/// All replicas get the parameters that the chief's callbacks have set at the end of training, even
/// if those of another worker have decided otherwise.
template <class T>
void FitLoop<T>::agree_on_parameters(AnyReplica& replica) {
  try {
    if (any_rank(replica, replica.local_rank() == 0 && has_set_parameters_))
      trainer_.broadcast_from_chief(replica);
  } catch (const CollectiveError&) {  // of a rank that is lost when training has ended
  }
}

/// Takes over the state of a survivor, or the chief's saved state where a callback has found one,
/// or the chief's variables.
template <class T>
void FitLoop<T>::resume(AnyReplica& replica) {
  const bool leader = replica.local_rank() == 0;
  std::vector<std::byte> saved = survivor_.furthest(replica.collective(), leader);
  if (saved.empty())
    saved = bytes_from_chief(replica.collective(),
                             leader ? std::move(pending_) : std::vector<std::byte>{});
  else if (leader)
    pending_ = {};
  call_back(replica, {.call = "fit"}, [&] {
    if (saved.empty()) return;
    if (decode_ == nullptr)
      throw ConfigurationError(
          "fit: the chief restores a saved state, this worker has no callback that can: start "
          "the same program on every worker");
    TrainingState state = decode_(saved);
    trainer_.restore_state(state);
    at_ = Position::take(state, metric_state());
    callbacks_.restore(state.callbacks);
    if (!this->is_chief()) return;
    if (at_.epoch > options_.epochs)
      log_line(concat({"fit: nothing to do: the restored training is in epoch ", at_.epoch + 1,
                       ", and .epochs is ", options_.epochs}));
    else if (at_.has_ended() || at_.epoch == options_.epochs)
      log_line(concat(
          {"fit: nothing to do: the restored training came to its end after epoch ", at_.epoch}));
  });
  if (saved.empty()) {
    check_shares(replica);
    trainer_.broadcast_from_chief(replica);
    if (leader) at_.data_iteration = first_pass();
    replica.team_barrier();
  }
  if (ParameterServers* const servers = replica.parameter_servers())
    if (auto place = join_servers(trainer_, *servers, at_)) at_ = std::move(*place);
  if (leader) {
    waiting_ = 0;
    if (waits_without_signals_) preempt_on_signals();
    if (restored_) history_.truncate(static_cast<int>(at_.epoch));
    if (restored_)
      log_line(concat({"fit: all workers are together again, and go on at epoch ", at_.epoch + 1,
                       ", step ", at_.step + 1}));
    survivor_.forget();
    restored_ = true;
  }
}

/// Without a saved state, a worker goes on with the slots that it has: they must be of one run.
template <class T>
void FitLoop<T>::check_shares(AnyReplica& replica) {
  if (!trainer_.variables().shares_updates() || trainer_.program().layout().slots == 0) return;
  std::array<std::int64_t, 2> most{trainer_.variables().iterations,
                                   -trainer_.variables().iterations};
  replica.collective().all_reduce(std::span<std::int64_t>(most), ReduceOp::max);
  const bool is_known = any_rank(replica, restored_);
  if (most[0] == -most[1] && !is_known) return;
  try {
    replica.collective().barrier();  // none throws before every other one knows
  } catch (const CollectiveError&) {
  }
  throw Error(concat({"fit: with sharded_updates, a worker that was lost has taken its slots of "
                      "the optimizer along, and there is no backup to go on from (workers have "
                      "made ",
                      -most[1], " to ", most[0],
                      " updates): start all workers again; a BackupAndRestore with a smaller "
                      "save_freq has a backup sooner"}),
              ExitCode::lost_peer);
}

/// The other replicas look at the decision after the barrier of resume.
template <class T>
void FitLoop<T>::decide_plan(AnyReplica& replica) {
  FitPlan decided = plan_;
  decided.decide(longest_pass(replica.collective(), plan_.steps), options_.steps_per_epoch);
  if (replica.local_rank() == 0) plan_ = std::move(decided);
}

/// Ranks may have other callbacks than each other: what those of one need, all take part in. (The
/// other replicas look at it after the next barrier.)
template <class T>
void FitLoop<T>::decide_exchanges(AnyReplica& replica) {
  const auto& has = callbacks_.has();
  std::array<std::int64_t, 4> any{has.stop_in_batch, has.epoch_end, has.train_end,
                                  has.complete_state};
  replica.collective().all_reduce(std::span<std::int64_t>(any), ReduceOp::max);
  if (replica.local_rank() != 0) return;
  may_stop_in_batch_ = any[0] > 0;
  has_epoch_end_hooks_ = any[1] > 0;
  has_train_end_hooks_ = any[2] > 0;
  gathers_slots_ = any[3] > 0;
}

/// The number of the first pass over the data. If epochs are whole passes, those before
/// initial_epoch count as made, even for a model that has not made them.
template <class T>
std::int64_t FitLoop<T>::first_pass() const {
  return std::max(trainer_.variables().next_pass,
                  plan_.new_pass_each_epoch ? std::int64_t{options_.initial_epoch} : 0);
}

/// Finds the place in the data of a run whose global batches may have had another size. Where
/// epochs are whole passes over the data, the step of the epoch follows the place; where they have
/// a number of steps, that number goes on.
template <class T>
void FitLoop<T>::take_up(AnyReplica& replica, Loader& data, Position& at) const {
  std::int64_t batch = 0;
  if (replica.collective().rank() == 0) {
    data.begin({.seed = trainer_.variables().seed, .number = at.data_iteration});
    if (data.next()) batch = static_cast<std::int64_t>(data.batch_size());
  }
  batch = from_chief(replica.collective(), batch);
  if (batch == 0 || batch == at.batch) return;
  const std::int64_t samples = at.data_position * at.batch;
  at.data_position = samples / batch;
  if (plan_.target && plan_.new_pass_each_epoch)
    at.data_position = std::min(at.data_position, *plan_.target);
  if (plan_.new_pass_each_epoch) at.step = at.data_position;
  if (replica.collective().rank() == 0)
    log_line(
        concat({"warning: fit: the saved run had global batches of ", at.batch,
                " samples, this program asks for ", batch, " and goes on with them, from sample ",
                at.data_position * batch, " of the data (of ", samples, " that were used)"}));
  at.batch = batch;
}

/// Runs the steps of an epoch.
template <class T>
typename FitLoop<T>::EpochEnd FitLoop<T>::train_epoch(const Parts<T>& parts, Updater<T>& updater,
                                                      Loader& data, int epoch, Position& at,
                                                      Status& running) {
  AnyReplica& replica = parts.replica;
  Workspace<T>& workspace = parts.workspace;
  const bool leader = replica.local_rank() == 0;
  std::int64_t iteration = parts.variables.iterations;
  std::int64_t alone = 0;  // steps since all ranks have met
  const std::int64_t window = trainer_.variables().accumulation_steps();
  std::int64_t accumulated = trainer_.variables().accumulated_steps;
  bool continues = false;  // a window of which not all is in Variables
  if (leader) accumulated_ = accumulated;
  bool more = at.step == 0 ||
              any_rank(replica, data.has_next());  // resumed after the last step of an epoch: none
  bool stop = running[Status::stop] > 0;           // resumed after the step in which all agreed
  Trace* const trace = profile_ ? &profile_->trace(replica.local_rank()) : nullptr;
  ActivityBoard* const board = leader ? activity_board(replica.collective()) : nullptr;
  ParameterServers* const servers = replica.parameter_servers();
  while (more && !stop && (!options_.steps_per_epoch || at.step < *options_.steps_per_epoch)) {
    const Activity place{.call = "fit", .epoch = epoch, .step = at.step};
    if (board != nullptr) board->set(place);
    // A state that is saved within a window is that before it.
    if (leader && window > 1 && !continues && callbacks_.has().in_step())
      callbacks_before_ = callbacks_.save();
    if (callbacks_.has().train_batch_begin)
      call_back(
          replica, place, [&] { callbacks_.on_train_batch_begin(*this, at.step); }, trace);
    if (leader) {
      is_verified_ = false;
      trainer_.release_slots();
    }
    if (servers != nullptr) tell_place(*servers, at, running);
    const bool ends_round = alone + 1 >= parts.variables.synchronization().steps() ||
                            (options_.steps_per_epoch && at.step + 1 >= *options_.steps_per_epoch);
    const bool has_updated = train_step(parts, updater, data,
                                        {.iteration = iteration,
                                         .accumulated = accumulated,
                                         .continues = continues,
                                         .ends_round = ends_round,
                                         .requests = requests(leader),
                                         .stop_on_non_finite = options_.stop_on_non_finite,
                                         .class_weight = plan_.class_weight,
                                         .trace = trace,
                                         .board = board});
    const std::optional<std::int64_t> together = updater.steps_together();
    if (together && *together > 0) {  // this rank's data may have ended before
      const std::int64_t missed = *together - alone - 1;
      iteration += missed;
      at.step += missed;
      at.data_position += missed;
    }
    alone = together ? 0 : alone + 1;
    const Status& status = workspace.status();
    if (!together) {
      parts.variables.complete_update(++iteration, has_updated);
      end_step_alone(replica, place, at, data, trace);
      continue;
    }
    if (status[Status::non_finite] > 0 && !workspace.non_finite.is_reported)
      report_non_finite(parts, options_.stop_on_non_finite, epoch, at.step);
    if (status[Status::samples] == 0) {
      if (at.step == 0 && at.data_position == 0) throw DataError("fit: the training data is empty");
      more = false;
      break;
    }
    running.accumulate(status);
    continues = ++accumulated < window;
    if (!continues) {
      ++iteration;
      accumulated = 0;
    }
    const std::int64_t batch = at.step++;
    if (at.data_position == 0 || at.batch == 0)  // what take_up compares
      at.batch = static_cast<std::int64_t>(data.batch_size());
    ++at.data_position;  // not data.position(): a rank whose data have ended stays behind
    more = status[Status::has_next] > 0;
    Requests asked = status.asked();
    if (!continues && (leader || parts.variables.is_in_rounds()))
      parts.variables.complete_update(iteration, has_updated);
    if (leader) {
      verify_ = false;  // it was asked in this step
      accumulated_ = accumulated;
      waiting_ = continues ? waiting_ + 1 : 0;
      report(trainer_.program(), running, logs_);
      if (!continues)
        keep_place(at, running, asked);  // the step counts even if a peer is lost in what follows
    }
    if (callbacks_.has().train_batch_end)
      call_back(
          replica, place, [&] { callbacks_.on_train_batch_end(*this, batch, logs_); }, trace);
    if (may_stop_in_batch_) {
      const Requests since = ask_all(replica, leader);
      if (since.stop) running[Status::stop] += 1;
      asked.add(since);
    }
    if (asked.verify) {
      trainer_.gather_rank_state(replica);
      verify(replica);
    }
    stop = asked.stop;
    const bool preempted = asked.preemption != ExitCode::success;
    if (leader) {
      const TraceSpan span(trace, TracePart::callbacks);
      progress_.update(at.step, logs_);
      if (may_stop_in_batch_ && !continues) keep_place(at, running, asked);
    }
    if (callbacks_.has().train_batch_complete)
      call_back(
          replica, place, [&] { callbacks_.on_train_batch_complete(*this, batch); }, trace);
    if (preempted) {  // the state that is saved is that before the window
      if (continues) parts.workspace.undo_step();
      return {.preemption = asked.preemption};
    }
  }
  if (continues) {
    updater.carry(accumulated);
    if (leader) {
      waiting_ = 0;
      keep_place(at, running, {});
    }
  }
  if (stop && leader) stop_ = true;  // the request of any worker is now everyone's
  const bool more_wanted = options_.steps_per_epoch && !stop &&
                           (at.step < *options_.steps_per_epoch ||
                            (!more && !plan_.new_pass_each_epoch && epoch + 1 < options_.epochs));
  if (more || !more_wanted) return {.finished = stop};
  if (leader && this->is_chief())
    log_line(concat({"warning: fit: the data ran out, training ends after epoch ", epoch + 1,
                     ": steps_per_epoch * epochs needs ",
                     *options_.steps_per_epoch * (options_.epochs - options_.initial_epoch),
                     " batches; use repeat() for more data"}));
  return {.finished = true};
}

/// What follows a step after which the ranks have not met.
template <class T>
void FitLoop<T>::end_step_alone(AnyReplica& replica, const Activity& place, Position& at,
                                Loader& data, Trace* trace) {
  const std::int64_t batch = at.step++;
  at.batch = std::max(at.batch, static_cast<std::int64_t>(data.batch_size()));
  ++at.data_position;
  if (replica.local_rank() == 0) verify_ = false;  // it was asked in this step
  if (callbacks_.has().train_batch_end)
    call_back(
        replica, place, [&] { callbacks_.on_train_batch_end(*this, batch, logs_); }, trace);
  if (replica.local_rank() == 0) {
    const TraceSpan span(trace, TracePart::callbacks);
    progress_.update(at.step, logs_);
  }
  if (callbacks_.has().train_batch_complete)
    call_back(
        replica, place, [&] { callbacks_.on_train_batch_complete(*this, batch); }, trace);
}

/// Sets the place that a state saved from now on has, where a save may be asked for.
template <class T>
void FitLoop<T>::keep_place(const Position& at, const Status& running, const Requests& asked) {
  const auto& has = callbacks_.has();
  if (!has.train_batch_begin && !has.train_batch_end && !has.train_batch_complete &&
      asked.preemption == ExitCode::success && !survivor_.is_enabled() &&
      trainer_.variables().accumulation_steps() == 1)
    return;
  at_ = at;
  at_.keep(running);
}

/// The servers keep where this worker goes on after its next step. (Of the epoch's sums, those of
/// that step are left out: they are not known yet.)
template <class T>
void FitLoop<T>::tell_place(ParameterServers& servers, const Position& at, const Status& running) {
  next_place_.epoch = at.epoch;
  next_place_.step = at.step + 1;
  next_place_.data_iteration = at.data_iteration;
  next_place_.data_position = at.data_position + 1;
  next_place_.batch = at.batch;
  next_place_.keep(running);
  encode_place(next_place_, servers.next_place);
}

/// Where the options want it: see verify_replicas.
template <class T>
void FitLoop<T>::verify(AnyReplica& replica) {
  replica.team_barrier();  // a callback may have changed the model
  if (options_.verify_replicas) verify_replicas(trainer_.parts(replica));
  gather_slots(replica);
  if (replica.local_rank() == 0) is_verified_ = true;
}

/// For what callbacks save next.
template <class T>
void FitLoop<T>::gather_slots(AnyReplica& replica) {
  if (gathers_slots_ && !trainer_.has_all_slots()) trainer_.gather_slots(replica);
}

/// The callbacks have had their on_epoch_end: all agree on what was asked, and the state is
/// complete.
template <class T>
Requests FitLoop<T>::complete_epoch(AnyReplica& replica, int epoch, bool finished) {
  const bool leader = replica.local_rank() == 0;
  const Requests asked = ask_all(replica, leader);
  if (has_epoch_end_hooks_) verify(replica);  // they may have changed the model
  call_back(replica, {.call = "fit", .epoch = epoch}, [&] {
    at_.is_epoch_open = false;
    if (asked.stop || finished) at_.set_ended(metric_state());
    callbacks_.on_epoch_complete(*this, epoch);
  });
  return asked;
}

/// All ranks have agreed to leave.
template <class T>
void FitLoop<T>::preempt(AnyReplica& replica, ExitCode code) {
  trainer_.gather_rank_state(replica);
  verify(replica);
  call_back(replica, {.call = "fit"}, [&] {
    note_stopping();
    if (signals_) signals_->answered();
    callbacks_.on_preemption(*this);
    if (profile_) finish_profile(*profile_, options_.profile, this->worker_index());
    preempted_ = code;
  });
  try {
    // Leaving cuts connections: not before every rank has come out of the reduction that carried
    // the request, and the chief has saved.
    replica.collective().barrier();
  } catch (const CollectiveError&) {  // a rank has left already
  }
}

/// Calls hooks on the first replica when all replicas of the process have come, while the others
/// may take part in what a callback does with a model. All of them see what a callback changes.
template <class T>
void FitLoop<T>::call_back(AnyReplica& replica, const Activity& place, FunctionRef<void()> f,
                           Trace* trace) {
  replica.team_lead([&] {
    const TraceSpan span(trace, TracePart::callbacks);
    call_hooks(callbacks_, place, f);
  });
}

template <class T>
StatusBlock FitLoop<T>::validate(AnyReplica& replica, Loader& data, int epoch) {
  const Parts<T> parts = trainer_.parts(replica);
  if (replica.local_rank() != 0)
    return evaluate_pass<T>(parts, data, options_.validation_steps, nullptr);
  const std::string_view where = std::exchange(has_validated_, true) ? "" : "fit: validation_data";
  const Activity place{.call = "fit, validation", .epoch = epoch};
  TestHooks<T> hooks(*this, trainer_.program(), callbacks_, place);
  return evaluate_pass(parts, data, options_.validation_steps, &hooks, where);
}

template <class T>
void FitLoop<T>::end_epoch(int epoch, const Status& running, const Status* validated) {
  logs_.clear();
  report(trainer_.program(), running, logs_);
  if (validated != nullptr) report(trainer_.program(), *validated, logs_, std::string("val_"));
  const double rate = trainer_.variables().learning_rate();
  if (trainer_.variables().has_schedule() || rate != trainer_.program().initial_learning_rate())
    logs_.set("learning_rate", rate);
  callbacks_.on_epoch_end(*this, epoch, logs_);
  progress_.end_epoch(logs_);
  history_.append(epoch, logs_);
}

/// What this rank asks in the next step.
template <class T>
Requests FitLoop<T>::requests(bool leader) const {
  if (!leader) return {};
  const bool by_signal = signals_ && requested_ == ExitCode::success;
  return {.stop = stop_,
          .preemption = by_signal ? signals_->received() : requested_,
          .verify = verify_};
}

/// Agrees on the requests between two epochs.
template <class T>
Requests FitLoop<T>::ask_all(AnyReplica& replica, bool leader) const {
  Status status(metric_state());
  status.ask(requests(leader));
  replica.collective().all_reduce(status.values(), ReduceOp::sum);
  return status.asked();
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

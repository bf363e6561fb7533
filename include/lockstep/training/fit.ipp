#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/core/traffic.hpp"
#include "lockstep/step/non_finite.hpp"
#include "lockstep/step/step.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/evaluate.hpp"
#include "lockstep/training/fit.hpp"
#include "lockstep/training/hook_errors.hpp"
#include "lockstep/training/loops.hpp"
#include "lockstep/training/model_training.hpp"
#include "lockstep/training/profile.hpp"
#include "lockstep/training/recovery.ipp"
#include "lockstep/training/whole_state.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// gradient_accumulation_steps: what happens to an open window of steps when a state is saved, or
/// an epoch or fit ends. A state that is saved within a window is the one from before the window.
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

template <class T>
void add_parts(FitState<T>& fit) {
  const auto add = [&](std::unique_ptr<FitPart<T>> part) {
    fit.parts.push_back(part.get());
    fit.own_parts.push_back(std::move(part));
  };
  const Trainer<T>& trainer = fit.trainer;
  fit.parts = {&fit.recovery};
  if (trainer.remote() != nullptr) fit.parts.push_back(trainer.remote());
  if (trainer.variables().accumulation_steps() > 1) add(std::make_unique<Accumulation<T>>(fit));
  add(std::make_unique<WholeState<T>>(fit));
  if (!fit.options.profile.empty()) add(std::make_unique<FitProfile<T>>(fit));
}

// --- the loop ------------------------------------------------------------------------------------

template <class T>
void FitRank<T>::run() {
  if (!agree_on_fit()) return;
  agree_on_plan();
  const ResidualScope residuals(model);
  updater = fit.trainer.updater(model);
  call_back([&] { begin_training(); });
  each_part(&FitPart<T>::begin, *this);
  if (is_leader && fit.is_chief()) warn_of_adapt(model);  // weights that are restored are there
  find_place();

  FitEnd end{.finished = at.has_ended()};
  if (at.is_epoch_open) {  // a peer was lost while all completed it
    place_.epoch = epoch = static_cast<int>(at.epoch) - 1;
    end = complete_epoch(end);
  }
  while (!end.finished && !end.leaves() && at.epoch < fit.options.epochs) {
    begin_epoch();
    end = make_steps();
    if (end.leaves()) break;
    end_epoch();
    end = complete_epoch(end);
  }
  end_training(end);
}

template <class T>
void FitRank<T>::begin_epoch() {
  Variables<T>& variables = fit.trainer.variables();
  epoch = static_cast<int>(at.epoch);
  place_.epoch = epoch;
  call_back([&] {
    fit.logs.clear();  // of the former epoch's validation
    if (variables.shows_averages()) variables.swap_averages();
    fit.callbacks.on_epoch_begin(fit.training, epoch);
    fit.progress->begin_epoch(epoch, fit.plan.target);
  });
  fit.trainer.rank_state().begin_steps(replica);
  if (!has_begun_pass_ || fit.plan.new_pass_each_epoch)
    data_.begin({.seed = variables.seed, .number = at.data_iteration});
  if (is_leader) variables.next_pass = at.data_iteration + 1;
  if (!has_begun_pass_ && at.data_position > 0) data_.seek(at.data_position);
  has_begun_pass_ = true;
  running.clear();
  std::copy(at.running.begin(), at.running.end(), running.values().begin());
  at.running.clear();
  iteration_ = model.variables.iterations;
  loss_scale_ = model.variables.loss_scale;
  skipped_ = 0;
  accumulated = variables.accumulated_steps;
  continues = false;
  if (is_leader) fit.window.accumulated = accumulated;
}

template <class T>
FitEnd FitRank<T>::make_steps() {
  const auto begin = Trace::Clock::now();
  const std::uint64_t sent_before = traffic().sent;
  const std::int64_t first = at.step;
  const Activity place = place_;
  const std::optional<std::int64_t>& limit = fit.options.steps_per_epoch;
  // If resumed after the last step of an epoch, there are no more steps; if resumed after the step
  // in which all agreed to stop, they stop.
  has_more_ = at.step == 0 || any_rank(replica, data_.has_next());
  stops_ = running[StatusBlock::stop] > 0;
  while (has_more_ && !stops_ && (!limit || at.step < *limit)) {
    place_.step = at.step;
    if (board_ != nullptr) board_->set(place_);
    each_part(&FitPart<T>::before_step, *this);
    if (fit.callbacks.has().train_batch_begin)
      call_back([&] { fit.callbacks.on_train_batch_begin(fit.training, at.step); });
    const bool has_updated = train_step(model, *updater, data_,
                                        {.iteration = iteration_,
                                         .accumulated = accumulated,
                                         .loss_scale = loss_scale_.value,
                                         .continues = continues,
                                         .ends_epoch = limit && at.step + 1 >= *limit,
                                         .requests = fit.requests_of(is_leader),
                                         .stop_on_non_finite = fit.options.stop_on_non_finite,
                                         .class_weight = fit.plan.class_weight,
                                         .trace = trace,
                                         .board = board_});
    if (const FitEnd end = end_step(has_updated); end.leaves()) return end;
  }
  place_ = place;
  each_part(&FitPart<T>::end_steps, *this);
  steps = at.step - first;
  duration = Trace::Clock::now() - begin;
  sent = traffic().sent - sent_before;
  const bool ran_out = has_run_out();
  const FitEnd end{.finished = stops_ || ran_out};
  if (!is_leader) return end;
  if (!fit.plan.target && (first == 0 || !fit.plan.counts_samples))
    fit.plan.target = at.step;      // the progress bar learns it in the first epoch
  if (stops_) fit.requests.stop();  // the request of any worker is now everyone's
  if (ran_out && fit.is_chief())
    log_warning(concat({"fit: the data ran out, training ends after epoch ", epoch + 1, ": ",
                        fit.options.epochs - fit.options.initial_epoch, " epochs of ", *limit,
                        " steps need more batches; use repeat()"}));
  return end;
}

/// Counts the step, calls the hooks of a batch, and acts on what the ranks have asked for.
template <class T>
FitEnd FitRank<T>::end_step(bool has_updated) {
  const auto& has = fit.callbacks.has();
  const std::optional<std::int64_t> missed = updater->missed_steps();
  const bool have_met = missed.has_value();
  if (have_met && !take_sums(*missed)) return {};
  Requests asked = have_met ? model.workspace.status().asked() : Requests{};
  const std::int64_t batch = at.step;
  count_step(has_updated, have_met);
  if (has.train_batch_end)
    call_back([&] { fit.callbacks.on_train_batch_end(fit.training, batch, fit.logs); });
  if (have_met && fit.any_rank_has.stop_in_batch) {
    const Requests since = ask_all();
    if (since.stop) running[StatusBlock::stop] += 1;
    asked.add(since);
    if (is_leader && !continues) keep_place();
  }
  if (asked.verify) each_part(&FitPart<T>::complete, *this);
  stops_ = asked.stop;
  if (is_leader) {
    const TraceSpan span(trace, TracePart::callbacks);
    fit.progress->update(at.step, fit.logs);
  }
  if (has.train_batch_complete)
    call_back([&] { fit.callbacks.on_train_batch_complete(fit.training, batch); });
  const bool stays = continues || stops_ || asked.preemption != ExitCode::success;
  return {.preemption = asked.preemption, .leaves_world = asked.regroup && !stays};
}

/// Takes the sums of all ranks after a meeting. `missed`: see Updater::missed_steps. Returns false
/// if no rank had a sample, so that this was no step.
template <class T>
bool FitRank<T>::take_sums(std::int64_t missed) {
  const StatusBlock& status = model.workspace.status();
  iteration_ += missed;
  at.step += missed;
  at.data_position += missed;
  if (status[StatusBlock::non_finite] > 0 && !model.workspace.non_finite.is_reported)
    report_non_finite(model, fit.options.stop_on_non_finite, epoch, at.step);
  has_more_ = status[StatusBlock::has_next] > 0;
  if (status[StatusBlock::samples] > 0) {
    running.accumulate(status);
    return true;
  }
  if (!has_more_ && at.step == 0 && at.data_position == 0)
    throw DataError("fit: the training data is empty");
  // (AutoShardPolicy::off: a last batch with fewer samples than parts.)
  if (has_more_) ++at.data_position;
  return false;
}

/// Advances this replica's place and, where the ranks have met, saved_place.
template <class T>
void FitRank<T>::count_step(bool has_updated, bool have_met) {
  continues = ++accumulated < model.variables.accumulation_steps();
  if (!continues) {
    const bool has_overflowed = model.workspace.status().has_overflowed();
    ++(has_overflowed ? skipped_ : iteration_);
    model.variables.advance(loss_scale_, has_overflowed);
    accumulated = 0;
    if (is_leader || model.variables.is_in_rounds())
      model.variables.complete_update(iteration_, has_updated, has_overflowed);
  }
  ++at.step;
  const auto size = static_cast<std::int64_t>(data_.batch_size());
  if (fit.plan.counts_samples)
    at.batch = 1;
  else if (at.data_position == 0 || at.batch == 0)  // what find_place compares
    at.batch = size;
  // Not data_.position(): a rank whose data have ended stays behind.
  at.data_position += fit.plan.counts_samples ? size : 1;
  if (!is_leader) return;
  fit.requests.verify(false);  // it was asked in this step
  if (!have_met) return;
  fit.window.accumulated = accumulated;
  fit.window.waiting = continues ? fit.window.waiting + 1 : 0;
  report(fit.trainer.program(), running, fit.logs);
  if (!continues) keep_place();  // the step counts even if a peer is lost in what follows
}

/// What a process has allocated for the model, and each of its replicas: see Budget.
template <class T>
std::string memory_text(const Parts<T>& model) {
  const Variables<T>& variables = model.variables;
  const Workspace<T>& workspace = model.workspace;
  const std::size_t accumulated = variables.accumulated().values().size_bytes();
  std::size_t slots = accumulated;
  for (const Arena<T>& slot : variables.slots()) slots += slot.values().size_bytes();
  if (variables.shares_updates())
    for (std::size_t slot = 0; slot < model.program.layout().slots; ++slot)
      slots += variables.slot_share(slot).size_bytes();
  std::size_t gradients = workspace.gradients().values().size_bytes();
  if (variables.shares().has_gradients())
    gradients = variables.shares().size(variables.worker()) * sizeof(T);
  return concat({"memory: parameters ", variables.parameters().values().size_bytes() / 1000,
                 " kB, slots ", slots / 1000, " kB; in each replica: gradients ",
                 (gradients + accumulated) / 1000,
                 variables.shares().has_gradients() ? " kB and what is not reduced yet, state "
                                                    : " kB, state ",
                 2 * workspace.state().values().size_bytes() / 1000, " kB, batch and layers ",
                 workspace.batch_bytes() / 1000, " kB"});
}

/// "278.4".
inline std::string tenths(double value) {
  const std::int64_t whole = std::llround(value * 10);
  return concat({whole / 10, ".", whole % 10});
}

/// What a step of the epoch takes on average: its work as Budget counts it, and what the process
/// sent.
template <class T>
std::string work_text(const FitRank<T>& rank) {
  const Flop flop = rank.model.program.layout().flop;
  const auto steps = static_cast<double>(rank.at.step) * rank.replica.collective().size();
  const double samples = rank.running[StatusBlock::samples] / steps;
  const auto of_sample = static_cast<double>(flop.forward + flop.backward_weights);
  std::string text = concat({"a step: matrix products of ", tenths(samples * of_sample * 1e-6),
                             " MFLOP in each replica"});
  if (!flop.uncounted.empty()) text += concat({" (without those of ", flop.uncounted, ")"});
  if (rank.sent > 0) {
    const double kilobytes = static_cast<double>(rank.sent) * 1e-3;
    text += concat(
        {"; sent to other workers: ", tenths(kilobytes / static_cast<double>(rank.steps)), " kB"});
  }
  return text;
}

template <class T>
void FitRank<T>::end_epoch() {
  const bool tells = is_leader && fit.times.empty() && fit.is_chief() && fit.options.verbose == 2;
  const std::string work = tells && steps > 0 ? work_text(*this) : std::string();
  const std::optional<StatusBlock> validated = validate();
  at.epoch = epoch + 1;
  at.step = 0;
  if (fit.plan.new_pass_each_epoch) {
    ++at.data_iteration;
    at.data_position = 0;
  }
  std::vector<RankTime> times = gather_rank_times(replica.collective(), duration,
                                                  std::exchange(model.workspace.in_collective, {}));
  if (times.size() > 1 && is_leader && fit.is_chief() && fit.options.verbose == 2)
    log_line(rank_times_text(times, epoch, steps, replica.local_size()));
  if (tells) log_line(memory_text<T>(model));
  if (!work.empty()) log_line(work);
  if (is_leader && model.variables.scales_loss() && fit.is_chief() && fit.options.verbose == 2)
    log_line(concat({"loss scale: ", loss_scale_.value, "; updates left out in epoch ", epoch + 1,
                     ", as gradients were not finite: ", skipped_}));
  if (is_leader) fit.times = std::move(times);
  each_part(&FitPart<T>::complete, *this);
  call_back([&] {
    const Variables<T>& variables = fit.trainer.variables();
    fit.logs.clear();
    report(fit.trainer.program(), running, fit.logs);
    if (validated) report(fit.trainer.program(), *validated, fit.logs, std::string("val_"));
    const double rate = variables.learning_rate();
    if (variables.has_schedule() || rate != fit.trainer.program().initial_learning_rate())
      fit.logs.set("learning_rate", rate);
    fit.callbacks.on_epoch_end(fit.training, epoch, fit.logs);
    fit.progress->end_epoch(fit.logs);
    fit.history.append(epoch, fit.logs);
    fit.saved_place = at;
    fit.saved_place.is_epoch_open = true;
  });
  each_part(&FitPart<T>::end_epoch, *this);
}

/// After the callbacks' on_epoch_end: all ranks agree on what was asked.
template <class T>
FitEnd FitRank<T>::complete_epoch(FitEnd end) {
  const Requests asked = ask_all();
  end.finished = end.finished || asked.stop;
  end.preemption = asked.preemption;
  if (fit.any_rank_has.epoch_end)  // they may have changed the model
    each_part(&FitPart<T>::complete, *this);
  call_back([&] {
    fit.saved_place.is_epoch_open = false;
    if (end.finished) fit.saved_place.set_ended(fit.metric_state());
    fit.callbacks.on_epoch_complete(fit.training, epoch);
  });
  at.is_epoch_open = false;
  return end;
}

template <class T>
void FitRank<T>::end_training(const FitEnd& end) {
  place_ = {.call = "fit"};
  each_part(&FitPart<T>::leave, *this, end);
  if (!end.leaves_world)
    call_back([&] {
      if (end.preemption != ExitCode::success) {
        note_stopping();
        fit.requests.answer_signals();
        fit.callbacks.on_preemption(fit.training);
        fit.preempted = end.preemption;
        return;
      }
      fit.has_set_parameters = false;
      fit.trainer.variables().take_averages();
      fit.callbacks.on_train_end(fit.training, fit.logs);
    });
  each_part(&FitPart<T>::left, *this, end);
  try {
    // Leaving cuts connections, so not before every rank is out of the reduction that carried the
    // request, and the chief has saved.
    if (end.leaves()) return replica.collective().barrier();
    // All get what the chief's callbacks have set, even if another worker's have set something
    // else.
    if (fit.any_rank_has.train_end && any_rank(replica, is_leader && fit.has_set_parameters))
      fit.trainer.broadcast_from_chief(replica);
  } catch (const CollectiveError&) {  // of a rank that has left already
  }
}

// --- what it calls -------------------------------------------------------------------------------

template <class T>
FitRank<T>::FitRank(FitState<T>& of, AnyReplica& on)
    : fit(of),
      replica(on),
      model(of.trainer.training_parts(on)),
      is_leader(on.local_rank() == 0),
      running(of.metric_state()),
      data_(of.trainer.distribute_training(of.train, on), of.trainer.has_targets()),
      board_(on.board()) {
  if (fit.options.validation_data)
    validation_.emplace(fit.trainer.distribute(fit.options.validation_data, replica),
                        fit.trainer.has_targets());
  if (is_leader) fit.callbacks.report_to(board_);
  model.workspace.non_finite = {};
}

template <class T>
FitRank<T>::~FitRank() {
  if (is_leader)
    fit.callbacks.report_to(nullptr);  // the board may be destroyed before the callbacks
}

template <class T>
void FitRank<T>::call_back(FunctionRef<void()> hooks) {
  replica.team_lead([&] {
    const TraceSpan span(place_.step >= 0 ? trace : nullptr, TracePart::callbacks);
    call_hooks(fit.callbacks, place_, hooks);
  });
}

template <class T>
void FitRank<T>::keep_place() {
  fit.saved_place = at;
  fit.saved_place.keep(running);
}

/// False if the others are in a later fit of the model, because this worker was started again, or
/// was lost at the end of this fit: it skips this fit, and they wait for it in theirs.
template <class T>
bool FitRank<T>::agree_on_fit() {
  const auto mine = fit.is_nested ? 0 : static_cast<std::uint64_t>(fit.trainer.fits());
  for (;;) {
    const auto [first, last] = agree(replica, "fit", fit.plan.signature, {}, mine);
    if (first == last || mine == 0) return true;
    if (mine == last) continue;
    if (is_leader)
      log_line(concat({"fit: the other workers are in fit ", last,
                       " of this model: this one leaves out fit ", mine}));
    call_back([&] {
      fit.recovery.restore_kept();
      if (!fit.recovery.has_begun()) return;
      fit.trainer.variables().take_averages();
      fit.callbacks.on_train_end(fit.training, fit.logs);
    });
    return false;
  }
}

/// Ranks may differ in data and callbacks: all take part in what one of them needs. (The other
/// replicas read it after the next barrier.)
template <class T>
void FitRank<T>::agree_on_plan() {
  if (fit.plan.steps_may_differ) {
    FitPlan decided = fit.plan;
    decided.decide(longest_pass(replica.collective(), fit.plan.steps), fit.options.steps_per_epoch);
    if (is_leader) fit.plan = std::move(decided);
  }
  const auto& has = fit.callbacks.has();
  std::array<std::int64_t, 4> any{has.stop_in_batch, has.epoch_end, has.train_end,
                                  has.complete_state};
  replica.collective().all_reduce(std::span<std::int64_t>(any), ReduceOp::max);
  if (!is_leader) return;
  fit.any_rank_has.stop_in_batch = any[0] > 0;
  fit.any_rank_has.epoch_end = any[1] > 0;
  fit.any_rank_has.train_end = any[2] > 0;
  fit.any_rank_has.complete_state = any[3] > 0;
}

/// Names the first layer whose mean and variance, or boundaries, which no step changes, are still 0
/// and 1, or 0. (Those on a device are not looked at.)
template <class T>
void warn_of_adapt(const Parts<T>& parts) {
  const std::span<const Variable> all = parts.program.layout().state_variables;
  if (parts.program.layout().device != nullptr) return;
  const auto is_still = [&](std::size_t i, std::string_view name, T value) {
    return all[i].is_constant && all[i].name == name &&
           std::ranges::all_of(parts.workspace.state().slices()[i],
                               [value](T element) { return element == value; });
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_normal = i > 0 && is_still(i - 1, "mean", T(0)) && is_still(i, "variance", T(1));
    if (!is_normal && !is_still(i, "bin_boundaries", T(0))) continue;
    const std::string name = parts.program.names().state_variables[i];
    return log_warning(concat(
        {"fit: the layer ", in_quotes(name.substr(0, name.rfind('/'))),
         is_normal ? " has mean 0 and variance 1, and changes nothing" : " has no boundaries but 0",
         ": call model.adapt(data) before fit, or load_weights"}));
  }
}

/// On the leader.
template <class T>
void FitRank<T>::begin_training() {
  if (!fit.recovery.begins_training()) return;
  const bool is_chief = fit.is_chief();
  if (is_chief && fit.options.validation_data)
    if (const std::string text = mixed_parts(fit.train, fit.options.validation_data); !text.empty())
      log_warning(text);
  if (const std::string names = fit.callbacks.other_hooks(); is_chief && !names.empty())
    log_warning(
        concat({"fit: ", names,
                ": no hook has that name, so fit does not call it: the hooks are on_epoch_end "
                "and so on, as callbacks/concepts.hpp lists them"}));
  if (is_chief && fit.options.verbose == 2)
    log_line(concat({"data: ", data_.policy_text(), "; updates: ", updater->name()}));
  fit.callbacks.on_train_begin(fit.training);
}

/// Called by all ranks: finds the place in the data after a run whose global batches may have had
/// another size. Where epochs are whole passes over the data, the step of the epoch follows from
/// the place; where they have a number of steps, the count of steps goes on.
template <class T>
void FitRank<T>::find_place() {
  if (at.batch == 0) return;
  const FitPlan& plan = fit.plan;
  if (plan.counts_samples) {
    at.data_position *= std::exchange(at.batch, 1);
    return;
  }
  const bool is_first = replica.collective().rank() == 0;
  std::int64_t batch = 0;
  if (is_first) {
    data_.begin({.seed = fit.trainer.variables().seed, .number = at.data_iteration});
    if (data_.next()) batch = static_cast<std::int64_t>(data_.batch_size());
  }
  batch = from_chief(replica.collective(), batch);
  if (batch == 0 || batch == at.batch) {
    // Where workers do not share each batch, the number of steps depends on the number of workers.
    if (decide_shard_policy(fit.train.auto_shard_policy(), fit.train.num_files(), 2).policy ==
        AutoShardPolicy::data)
      check_place(plan, fit.options, at);
    return;
  }
  const std::int64_t samples = at.data_position * at.batch;
  at.data_position = samples / batch;
  if (plan.target && plan.new_pass_each_epoch)
    at.data_position = std::min(at.data_position, *plan.target);
  if (plan.new_pass_each_epoch) at.step = at.data_position;
  const bool counted_samples = at.batch == 1;  // batches may have had several sizes
  const bool is_exact = at.data_position * batch == samples;
  if (is_first && !(counted_samples && is_exact))
    log_warning(
        concat({"fit: the saved run ",
                counted_samples ? std::string("is in the middle of a global batch")
                                : concat({"had global batches of ", at.batch, " samples"}),
                ", this program asks for ", batch, " and goes on with them, from sample ",
                at.data_position * batch, " of the data (of ", samples, " that were used)"}));
  at.batch = batch;
}

template <class T>
Requests FitRank<T>::ask_all() {
  StatusBlock status(fit.metric_state());
  status.ask(fit.requests_of(is_leader));
  replica.collective().all_reduce(status.values(), ReduceOp::sum);
  return status.asked();
}

/// Whether the data have ended before the steps that the options ask for.
template <class T>
bool FitRank<T>::has_run_out() const {
  const FitOptions& options = fit.options;
  return !has_more_ && !stops_ && options.steps_per_epoch &&
         (at.step < *options.steps_per_epoch ||
          (!fit.plan.new_pass_each_epoch && epoch + 1 < options.epochs));
}

template <class T>
std::optional<StatusBlock> FitRank<T>::validate() {
  if (!validation_ || !fit.options.validation_freq.due(epoch)) return std::nullopt;
  const Parts<T> parts = fit.trainer.parts(replica);
  std::optional<TestHooks<T>> hooks;
  std::string_view where;
  if (is_leader) {
    hooks.emplace(fit.training, fit.trainer.program(), fit.callbacks,
                  Activity{.call = "fit, validation", .epoch = epoch});
    if (!std::exchange(fit.has_validated, true)) where = "fit: validation_data";
  }
  StatusBlock sums = evaluate_pass(parts, *validation_, fit.options.validation_steps,
                                   hooks ? &*hooks : nullptr, where);
  if (sums[StatusBlock::samples] == 0) throw DataError("fit: validation_data is empty");
  return sums;
}

// --- the call ------------------------------------------------------------------------------------

/// Repeats the loop for as long as it survives the loss of a worker, or goes on with a new one.
/// Throws Preempted here and not on a replica, where a strategy would take it for the failure of
/// this worker, and tell the others.
template <class T>
History run_until_together(FitState<T>& fit) {
  AnyStrategy& strategy = fit.trainer.strategy();
  for (bool connected = true;;) {
    try {
      if (!connected) {
        strategy.reconnect();
        fit.recovery.take_place();
      }
      strategy.run([&](AnyReplica& replica) {
        if (!connected) fit.trainer.start(replica);  // as restarted workers do
        ActivityBoard* const board = replica.board();
        const ActivityScope activity(board, {.call = "fit"});
        try {
          FitRank<T>(fit, replica).run();
        } catch (const std::bad_alloc&) {
          throw Error(concat({to_string(board != nullptr ? board->get() : Activity{.call = "fit"}),
                              ": out of memory", limits_text(Resource::memory)}));
        }
      });
      connected = !fit.recovery.goes_on_elsewhere();
    } catch (const CollectiveError& error) {
      if (fit.is_nested) throw;  // the outer fit survives that, or does not
      fit.recovery.survive(error);
      connected = false;
    }
    if (!connected) continue;
    if (fit.preempted == ExitCode::success) return std::move(fit.history);
    throw Preempted(
        concat({"fit: stopped by ", fit.requests.signal_name(fit.preempted), " at epoch ",
                fit.saved_place.epoch + 1, ", step ", fit.saved_place.step}),
        fit.preempted);
  }
}

template <class T>
History fit(Trainer<T>& trainer, const AnyDataset& dataset, const FitOptions& options,
            CallbackHooks& callbacks) {
  if (trainer.is_in_fit())
    throw Error(
        "fit: this model is in fit already: a callback may use it for evaluate, predict, save, "
        "load_weights and "
        "set_weights, and fit another model");
  if (trainer.remote() != nullptr) trainer.remote()->serve();  // a server ends here: throws Served
  struct InFit {
    Trainer<T>& trainer;
    explicit InFit(Trainer<T>& used) : trainer(used) { trainer.begin_fit(); }
    ~InFit() { trainer.end_fit(); }
  } const in_fit(trainer);
  const AnyStrategy& strategy = trainer.strategy();
  ++trainer.variables().revision;
  std::optional<FitState<T>> made;
  try {
    made.emplace(trainer, dataset, options, callbacks);
  } catch (...) {
    if (trainer.remote() != nullptr) trainer.remote()->abandon();
    throw;
  }
  FitState<T>& state = *made;
  add_parts(state);
  if (options.verbose == 2 && strategy.is_chief())
    log_line(concat(
        {"seed: ", trainer.variables().seed, "; replicas: ", strategy.num_replicas_in_sync(), " (",
         strategy.local_replicas(), " in each of ", strategy.num_workers(), " workers)",
         strategy.cluster_source().empty() ? "" : "; cluster: from ", strategy.cluster_source()}));
  try {
    return run_until_together(state);
  } catch (...) {
    abort_callbacks(callbacks, state.training);
    for (FitPart<T>* const part : state.parts) part->abandon();
    throw;
  }
}

LOCKSTEP_INSTANCE(History fit(Trainer<LOCKSTEP_REAL>&, const AnyDataset&, const FitOptions&,
                              CallbackHooks&));
}}}  // namespace lockstep::detail

#pragma once

#include <algorithm>
#include <concepts>
#include <exception>
#include <random>
#include <span>
#include <utility>

#include "lockstep/callbacks/progress_bar.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/kernels/instruction_set.hpp"
#include "lockstep/step/updaters/choose_updater.hpp"
#include "lockstep/step/updaters/update_shares_of.hpp"
#include "lockstep/training/adapt_pass.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/evaluate_pass.hpp"
#include "lockstep/training/fit_loop.hpp"
#include "lockstep/training/hook_errors.hpp"
#include "lockstep/training/model_training.hpp"
#include "lockstep/training/predict_pass.hpp"
#include "lockstep/training/saved_arrays.hpp"
#include "lockstep/training/saved_signature.hpp"
#include "lockstep/training/served_fit.hpp"
#include "lockstep/training/trainer.hpp"
#include "lockstep/training/worker_data.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Shows the other workers which call this one is in, until the end of the scope.
[[nodiscard]] inline ActivityScope show_call(AnyReplica& replica, const char* call) {
  return ActivityScope(replica.local_rank() == 0 ? activity_board(replica.collective()) : nullptr,
                       {.call = call});
}

/// Throws ConfigurationError unless it makes sense.
inline const Synchronization& checked(const Synchronization& synchronization,
                                      const UpdateRules& rules, bool shares_updates) {
  synchronization.validate();
  if (synchronization.is_in_rounds() && shares_updates)
    throw ConfigurationError(concat(
        {"compile: ", synchronization.description(),
         " with sharded_updates: in a round each rank updates all of its own parameters; take "
         "one of the two"}));
  if (synchronization.is_in_rounds() && rules.accumulation_steps > 1)
    throw ConfigurationError(
        concat({"compile: ", synchronization.description(),
                " with gradient_accumulation_steps=", rules.accumulation_steps,
                ": in a round each rank updates in every step; use larger batches, or no rounds"}));
  return synchronization;
}

template <class T>
Trainer<T>::Trainer(const Program<T>& program, std::unique_ptr<AnyStrategy> strategy,
                    std::optional<std::uint64_t> seed, const Synchronization& synchronization)
    : program_(program),
      strategy_(std::move(strategy)),
      variables_(program,
                 checked(synchronization, program.update_rules(), strategy_->sharded_updates()),
                 strategy_->sharded_updates()),
      workspaces_(static_cast<std::size_t>(strategy_->local_replicas())),
      rank_state_(program, variables_, workspaces_.size()) {
  variables_.seed = seed ? *seed : std::random_device{}();
  if (strategy_->parameter_servers() != nullptr) check_for_servers(program_, synchronization);
  strategy_->run([&](AnyReplica& replica) { start(replica); });
}

template <class T>
Trainer<T>::~Trainer() = default;

template <class T>
void Trainer<T>::start(AnyReplica& replica) {
  auto& collective = replica.collective();
  const bool leader = replica.local_rank() == 0;
  const auto activity = show_call(replica, "compile");
  agree(collective, "compile",
        signature() + (variables_.shares_updates() ? "\nsharded updates: yes" : ""));
  const auto allocate = [&](std::size_t bytes) { return collective.allocate(bytes); };
  auto& workspace = workspaces_[static_cast<std::size_t>(replica.local_rank())];
  workspace = std::make_unique<Workspace<T>>(program_, allocate);
  rank_state_.start(static_cast<std::size_t>(replica.local_rank()));
  if (!variables_.is_in_rounds() && can_update_for_all(program_, replica)) {
    variables_.allocate_parameters(allocate);
  } else if (leader && variables_.shares_updates()) {
    variables_.share_updates(update_shares_of(variables_, replica), strategy_->worker_index());
    if (variables_.shares().is_of_blocks()) variables_.allocate_parameters(allocate);
  }
  if (leader && collective.can().keep_residuals && std::same_as<T, float>)
    workspace->keep_residuals();
  // Results depend on the instruction set (fused multiply-add), so that ranks use the lowest of all
  // of them.
  std::int64_t level = -static_cast<std::int64_t>(kernels::instruction_set());
  collective.all_reduce(std::span(&level, 1), ReduceOp::max);
  const std::uint64_t seed = from_chief(collective, variables_.seed);
  replica.team_barrier();  // all have read level and seed
  if (leader) kernels::set_instruction_set(static_cast<InstructionSet>(-level));
  initialize<T>(program_.layout().state_variables, workspace->state().slices(),
                RandomKey(seed).fold_in(1));
  if (leader) {
    variables_.seed = seed;
    initialize<T>(program_.layout().variables, variables_.parameters().slices(), RandomKey(seed));
  }
  broadcast_from_chief(replica);
}

template <class T>
void Trainer<T>::broadcast_from_chief(AnyReplica& replica) {
  const bool leader = replica.local_rank() == 0;
  auto& collective = replica.collective();
  Workspace<T>& own = workspace(static_cast<std::size_t>(replica.local_rank()));
  // Replicas that share variables with another receive into their gradients.
  const auto send = [&](std::span<T> values) {
    collective.broadcast(std::as_writable_bytes(leader ? values : own.gradients().values()), 0);
  };
  if (collective.size() > 1) {
    send(variables_.parameters().values());
    for (std::size_t i = variables_.own_slots(); i < variables_.slots().size(); ++i)
      send(variables_.slots()[i].values());
    if (!variables_.accumulated().values().empty()) send(variables_.accumulated().values());
    if (!own.state().values().empty())
      collective.broadcast(std::as_writable_bytes(own.state().values()), 0);
    const double learning_rate = from_chief(collective, variables_.learning_rate());
    const std::int64_t iterations = from_chief(collective, variables_.iterations);
    const double previous_learning_rate = from_chief(collective, variables_.previous_learning_rate);
    const std::int64_t accumulated_steps = from_chief(collective, variables_.accumulated_steps);
    const double accumulated_rows = from_chief(collective, variables_.accumulated_rows);
    const std::int64_t shows_averages =
        from_chief(collective, std::int64_t{variables_.shows_averages()});
    const std::int64_t next_pass = from_chief(collective, variables_.next_pass);
    replica.team_barrier();  // all have read the counters
    if (leader) {
      variables_.set_learning_rate(learning_rate);
      variables_.iterations = iterations;
      variables_.previous_learning_rate = previous_learning_rate;
      variables_.accumulated_steps = accumulated_steps;
      variables_.accumulated_rows = accumulated_rows;
      variables_.set_shows_averages(shows_averages != 0);
      variables_.next_pass = next_pass;
    }
  }
  replica.team_barrier();
}

template <class T>
void Trainer<T>::gather_rank_state(AnyReplica& replica) {
  if (ranks_differ())
    rank_state_.gather(replica, workspace(static_cast<std::size_t>(replica.local_rank())),
                       has_residuals());
}

template <class T>
DistributionContext Trainer<T>::place(int local_replicas, int local_replica) const {
  return {.num_workers = strategy_->num_workers(),
          .worker = strategy_->worker_index(),
          .local_replicas = local_replicas,
          .local_replica = local_replica};
}

template <class T>
DistributionContext Trainer<T>::pass_place(int local_replicas, int local_replica) const {
  if (strategy_->parameter_servers() == nullptr) return place(local_replicas, local_replica);
  return {.num_workers = 1,
          .worker = 0,
          .local_replicas = local_replicas,
          .local_replica = local_replica};
}

template <class T>
DistributedDataset<AnyDataset> Trainer<T>::distribute(const AnyDataset& dataset,
                                                      const AnyReplica& replica,
                                                      std::optional<AutoShardPolicy> policy) const {
  return {dataset, pass_place(replica.local_size(), replica.local_rank()), policy};
}

template <class T>
DistributedDataset<AnyDataset> Trainer<T>::distribute_training(const AnyDataset& dataset,
                                                               const AnyReplica& replica) const {
  return {dataset, place(replica.local_size(), replica.local_rank())};
}

template <class T>
void Trainer<T>::catch_up() {
  ParameterServers* const servers = strategy_->parameter_servers();
  if (servers != nullptr && servers->is_in_fit) pull_from_servers(*this, *servers);
}

/// An exception ends fit, and no other one may replace it.
inline void abort_callbacks(CallbackHooks& callbacks, Training& training) noexcept {
  try {
    callbacks.on_train_abort(training);
  } catch (const std::exception& error) {
    log_line(std::string("warning: fit: on_train_abort: ") + error.what());
  } catch (...) {
    log_line("warning: fit: on_train_abort: an exception that is no std::exception");
  }
}

/// Repeats the loop for as long as it survives the loss of a worker.
template <class T>
History run_until_together(Trainer<T>& trainer, FitLoop<T>& loop, bool is_nested) {
  for (bool together = true;;) {
    try {
      if (!together) trainer.strategy().reconnect();
      trainer.strategy().run([&](AnyReplica& replica) {
        if (!together) trainer.start(replica);  // as the workers do that have been started again
        loop.run(replica);
      });
      return loop.take_history();
    } catch (const CollectiveError& error) {
      if (is_nested) throw;  // it is for the outer fit to survive that
      loop.survive(error);
      together = false;
    }
  }
}

template <class T>
History Trainer<T>::fit(const AnyDataset& dataset, const FitOptions& options,
                        CallbackHooks& callbacks) {
  if (is_in_fit_)
    throw Error(
        "fit: this model is in fit already: a callback may use it for evaluate, predict, save, "
        "load_weights and "
        "set_weights, and fit another model");
  if (ParameterServers* const servers = strategy_->parameter_servers();
      servers != nullptr && servers->is_server())
    serve_fits(*this, *servers);
  is_in_fit_ = true;
  ++variables_.revision;
  struct Leave {
    bool& flag;
    ~Leave() { flag = false; }
  } const leave{is_in_fit_};
  const bool is_nested = strategy_->is_running();
  FitLoop<T> loop(*this, dataset, options, callbacks);
  if (options.verbose == 2 && strategy_->is_chief())
    log_line(concat({"seed: ", variables_.seed, "; replicas: ", strategy_->num_replicas_in_sync(),
                     " (", strategy_->local_replicas(), " in each of ", strategy_->num_workers(),
                     " workers)", strategy_->cluster_source().empty() ? "" : "; cluster: from ",
                     strategy_->cluster_source()}));
  try {
    return run_until_together(*this, loop, is_nested);
  } catch (...) {
    abort_callbacks(callbacks, loop);
    if (ParameterServers* const servers = strategy_->parameter_servers()) abandon_servers(*servers);
    throw;
  }
}

template <class T>
Logs Trainer<T>::evaluate(const AnyDataset& dataset, const EvaluateOptions& options,
                          CallbackHooks& callbacks) {
  const WorkerData mine("evaluate", dataset, pass_place());
  check_pass("evaluate", mine, program_.layout().data, options.steps);
  const std::string signature = pass_signature(mine, options.steps);
  ModelTraining<T> training(*this);
  ProgressBar progress(strategy_->is_chief() ? options.verbose : 0);
  const std::int64_t batches = mine.steps();
  progress.begin_epoch(0, options.steps  ? options.steps
                          : batches >= 0 ? std::optional(batches)
                                         : std::nullopt);
  StatusBlock result(program_.layout().metric_state);
  strategy_->run([&](AnyReplica& replica) {
    const auto activity = show_call(replica, "evaluate");
    agree(replica.collective(), "evaluate", signature);
    BatchLoader<T> data(distribute(dataset, replica), program_.layout().targets > 0);
    if (replica.local_rank() != 0) {
      evaluate_pass<T>(parts(replica), data, options.steps, nullptr);
      return;
    }
    callbacks.report_to(activity_board(replica.collective()));
    TestHooks<T> hooks(training, program_, callbacks, {.call = "evaluate"}, &progress);
    result = evaluate_pass(parts(replica), data, options.steps, &hooks, "evaluate");
  });
  if (result[StatusBlock::samples] == 0) throw DataError("evaluate: the data is empty");
  Logs logs;
  report(program_, result, logs);
  return logs;
}

template <class T>
std::vector<T> Trainer<T>::predict(const AnyDataset& dataset, const PredictOptions& options,
                                   CallbackHooks& callbacks) {
  const WorkerData mine("predict", dataset, pass_place(), AutoShardPolicy::data);
  check_pass("predict", mine, {.input = program_.layout().data.input}, options.steps);
  const std::string signature = pass_signature(mine, options.steps);
  ModelTraining<T> training(*this);
  std::vector<T> rows;
  const Activity where{.call = "predict"};
  call_hooks(callbacks, where, [&] { callbacks.on_predict_begin(training); });
  strategy_->run([&](AnyReplica& replica) {
    const auto activity = show_call(replica, "predict");
    agree(replica.collective(), "predict", signature);
    BatchLoader<T> data(distribute(dataset, replica, AutoShardPolicy::data), false);
    const bool leader = replica.local_rank() == 0;
    PredictHooks hooks(training, callbacks, where);
    const std::int64_t made = predict_pass(parts(replica), data, options.steps,
                                           leader ? &rows : nullptr, leader ? &hooks : nullptr);
    if (replica.collective().rank() == 0) warn_of_missing_steps("predict", made, options.steps);
  });
  call_hooks(callbacks, where, [&] { callbacks.on_predict_end(training); });
  return rows;
}

template <class T>
void Trainer<T>::adapt(const AnyDataset& dataset, const AdaptOptions& options) {
  const WorkerData mine("adapt", dataset, pass_place());
  check_pass("adapt", mine, {.input = program_.layout().data.input}, options.steps);
  const std::string signature = pass_signature(mine, options.steps);
  Adapted done;
  strategy_->run([&](AnyReplica& replica) {
    const auto activity = show_call(replica, "adapt");
    agree(replica.collective(), "adapt", signature);
    BatchLoader<T> data(distribute(dataset, replica), false);
    const Adapted by_this = adapt_pass(parts(replica), data, options.steps);
    if (replica.collective().rank() == 0)
      warn_of_missing_steps("adapt", by_this.batches, options.steps);
    if (replica.local_rank() == 0) done = by_this;
  });
  if (!done.had_data) throw DataError("adapt: the data is empty");
  if (done.layers == 0)
    throw ConfigurationError(
        "adapt: the model has no layer that is adapted to data, such as Normalization");
}

template <class T>
std::vector<NamedArray<T>> Trainer<T>::named_arrays(std::size_t replica) const {
  return detail::named_arrays(program_, variables_.parameters(), workspace(replica).state());
}

template <class T>
std::string Trainer<T>::signature() const {
  std::string text =
      concat({"scalar type: ", scalar_name<T>(), "\n", program_.input_description(), "\n"});
  const std::vector<std::string> names = program_.names().variables;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += concat({"model layout: ", names[i], " ",
                    shape_text(program_.layout().variables[i].shape()), "\n"});
  text += program_.parts_description();
  if (variables_.is_in_rounds())
    text += concat({"\nsynchronization: ", variables_.synchronization().description()});
  return text;
}

template <class T>
ArrayList trained_arrays(const Program<T>& program, const Arena<T>& arena) {
  return array_list<T>(program.layout().variables, program.names().variables, arena.slices());
}
template <class T>
ArrayList untrained_arrays(const Program<T>& program, const Arena<T>& state) {
  return array_list<T>(program.layout().state_variables, program.names().state_variables,
                       state.slices());
}

/// The optimizer's, averages, and the outer optimizer's.
template <class T>
std::size_t Trainer<T>::slot_count() const noexcept {
  return variables_.slots().size() + (variables_.shares_updates() ? program_.layout().slots : 0);
}

template <class T>
bool Trainer<T>::has_all_slots() const noexcept {
  return !variables_.shares_updates() || program_.layout().slots == 0 ||
         gathered_->are_of(variables_);
}

template <class T>
void Trainer<T>::gather_slots(AnyReplica& replica) const {
  if (variables_.shares_updates() && program_.layout().slots > 0)
    gathered_->gather(program_, variables_, replica);
}

template <class T>
void Trainer<T>::gather_slots() const {
  if (has_all_slots()) return;
  strategy_->run([&](AnyReplica& replica) {
    const auto activity = show_call(replica, "save");
    agree(replica.collective(), "save", {});
    gather_slots(replica);
  });
}

template <class T>
const Arena<T>& Trainer<T>::whole_slot(std::size_t number) const {
  const std::size_t shared = variables_.shares_updates() ? program_.layout().slots : 0;
  if (number >= shared) return variables_.slots()[number - shared];
  if (!has_all_slots() || gathered_->whole().empty())
    throw Error(concat(
        {"the state of worker ", strategy_->worker_index(),
         " has not all slots of the optimizer: with sharded_updates, the chief alone gets them, "
         "where a state is complete: in on_epoch_end, on_epoch_complete, on_preemption and "
         "on_train_end, and in on_train_batch_complete after verify_after_step in "
         "on_train_batch_begin"}));
  return gathered_->whole()[number];
}

template <class T>
void Trainer<T>::load_slot(const TrainingState& saved, std::size_t number, bool check_only) {
  const std::size_t first = number * program_.layout().variables.size();
  const std::size_t shared = variables_.shares_updates() ? program_.layout().slots : 0;
  if (number >= shared)
    return load_arrays(saved.slots, first,
                       trained_arrays(program_, variables_.slots()[number - shared]), check_only);
  const Arena<T> whole(program_.layout().variables);
  load_arrays(saved.slots, first, trained_arrays(program_, whole), check_only);
  if (check_only) return;
  for (const SharePiece& piece : variables_.shares().of(variables_.worker()))
    std::ranges::copy(
        whole.values().subspan(piece.begin, piece.size),
        variables_.slot_share(number).begin() + static_cast<std::ptrdiff_t>(piece.place));
}

template <class T>
TrainingState Trainer<T>::save_state(TrainingState reused, bool before_step) const {
  if (const ParameterServers* const servers = strategy_->parameter_servers();
      servers != nullptr && servers->is_in_fit && !servers->is_current)
    throw Error(
        "save: within a fit with parameter servers, the optimizer's state is theirs: files are "
        "saved by callbacks such as ModelCheckpoint and BackupAndRestore, or after the fit");
  TrainingState saved;
  saved.signature = signature();
  if (reused.signature == saved.signature) {  // then its arrays are as large as this model's
    saved.parameters = std::move(reused.parameters);
    saved.state = std::move(reused.state);
    saved.slots = std::move(reused.slots);
  }
  saved.world_size = strategy_->num_replicas_in_sync();
  saved.scalar = scalar_name<T>();
  saved.iterations = variables_.iterations;
  saved.learning_rate = variables_.learning_rate();
  saved.previous_learning_rate = variables_.previous_learning_rate;
  saved.accumulated_steps = variables_.accumulated_steps;
  saved.accumulated_rows = variables_.accumulated_rows;
  saved.shows_averages = variables_.shows_averages();
  saved.seed = variables_.seed;
  saved.data_iteration = variables_.next_pass;
  save_arrays(saved.parameters, 0, trained_arrays(program_, variables_.parameters()));
  const std::size_t count = program_.layout().variables.size();
  for (std::size_t i = 0; i < slot_count(); ++i)
    save_arrays(saved.slots, i * count, trained_arrays(program_, whole_slot(i)),
                concat({"/slot_", i}));
  const std::size_t in_slots = slot_count() * count;
  const bool is_in_window = variables_.accumulated_steps > 0;
  if (is_in_window)
    save_arrays(saved.slots, in_slots, trained_arrays(program_, variables_.accumulated()),
                "/accumulated");
  saved.slots.resize(in_slots + (is_in_window ? count : 0));
  rank_state_.save(saved.slots, static_cast<std::size_t>(strategy_->num_replicas_in_sync()));
  const Workspace<T>& first = workspace(0);
  save_arrays(saved.state, 0,
              untrained_arrays(program_, before_step ? first.state_before_step() : first.state()));
  return saved;
}

template <class T>
std::uint64_t Trainer<T>::state_bytes() const {
  const std::size_t trained = variables_.parameters().values().size() * (1 + slot_count()) +
                              variables_.accumulated().values().size();
  // Of a run on many ranks, too, that goes on with few.
  const auto ranks =
      std::max<std::size_t>(64, static_cast<std::size_t>(strategy_->num_replicas_in_sync()));
  const std::size_t own = variables_.parameters().values().size() * ranks *
                          (variables_.own_slots() + (has_residuals() ? 1 : 0));
  return (trained + own + workspace(0).state().values().size()) * sizeof(T);
}

template <class T>
void Trainer<T>::restore_state(const TrainingState& saved) {
  const std::string mine = signature();
  check_signature(saved.signature, mine);
  if (saved.scalar != scalar_name<T>())
    throw ConfigurationError(concat(
        {"restore: the saved state is of ", saved.scalar, ", this model of ", scalar_name<T>()}));
  const std::size_t count = program_.layout().variables.size();
  const bool is_in_window =
      saved.accumulated_steps > 0 && !variables_.accumulated().values().empty();
  const std::size_t behind = (slot_count() + (is_in_window ? 1 : 0)) * count;
  if (saved.parameters.size() != count || !rank_state_.fits(saved, behind))
    throw ConfigurationError(
        concat({"restore: the saved state has ", saved.parameters.size(), " parameter arrays and ",
                saved.slots.size(), " optimizer arrays, this model has ", count, " and ",
                slot_count() * count, ": it belongs to another program"}));
  for (const bool check_only : {true, false}) {
    for (const auto& own : workspaces_)
      load_arrays(saved.state, 0, untrained_arrays(program_, own->state()), check_only);
    load_arrays(saved.parameters, 0, trained_arrays(program_, variables_.parameters()), check_only);
    for (std::size_t i = 0; i < slot_count(); ++i) load_slot(saved, i, check_only);
    if (is_in_window)
      load_arrays(saved.slots, slot_count() * count,
                  trained_arrays(program_, variables_.accumulated()), check_only);
    rank_state_.load(saved, behind, place(), workspace(0).residuals(), check_only);
  }
  variables_.iterations = saved.iterations;
  ++variables_.revision;
  variables_.set_learning_rate(saved.learning_rate);
  variables_.previous_learning_rate = saved.previous_learning_rate;
  if (!is_in_window) std::ranges::fill(variables_.accumulated().values(), T(0));
  variables_.accumulated_steps = saved.accumulated_steps;
  variables_.accumulated_rows = saved.accumulated_rows;
  variables_.set_shows_averages(saved.shows_averages);
  variables_.seed = saved.seed;
  variables_.next_pass = saved.data_iteration + (saved.data_position > 0 ? 1 : 0);  // a new one
  if (strategy_->is_chief() && saved.signature != mine)
    log_line(
        variables_.has_schedule()
            ? concat(
                  {"restore: goes on with the schedule of this program, now at the learning rate ",
                   variables_.learning_rate(), "; the saved state has ", saved.learning_rate})
            : concat({"restore: goes on with the learning rate ", saved.learning_rate,
                      " of the saved state; this program has ", program_.initial_learning_rate()}));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

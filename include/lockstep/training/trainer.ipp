#pragma once

#include <concepts>
#include <random>
#include <utility>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/data/resized_batches.hpp"
#include "lockstep/kernels/instruction_set.hpp"
#include "lockstep/step/updaters/choose_updater.hpp"
#include "lockstep/step/updaters/sharded.hpp"
#include "lockstep/strategies/elastic_world.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/model_state.hpp"
#include "lockstep/training/trainer.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

template <class T>
void RankState<T>::start(std::size_t replica) {
  if (replica != 0 && variables_.is_in_rounds())
    own_[replica] = std::make_unique<Variables<T>>(program_, variables_.synchronization());
}

template <class T>
void RankState<T>::begin_steps(AnyReplica& replica) const {
  if (!variables_.is_in_rounds() || replica.local_size() == 1) return;
  const auto& own = own_[static_cast<std::size_t>(replica.local_rank())];
  if (own) own->take_over(variables_);
  replica.team_barrier();
}

template <class T>
void RankState<T>::set_learning_rate(double learning_rate) const {
  variables_.set_learning_rate(learning_rate);
  for (const auto& own : own_)
    if (own) own->set_learning_rate(learning_rate);
}

template <class T>
void RankState<T>::share_parameters() const {
  for (const auto& own : own_)
    if (own)
      std::ranges::copy(variables_.parameters().values(), own->parameters().values().begin());
}

template <class T>
void RankState<T>::gather(AnyReplica& replica, Workspace<T>& workspace, bool has_residuals) {
  auto& collective = replica.collective();
  Variables<T>& mine = variables(static_cast<std::size_t>(replica.local_rank()));
  std::size_t count = 0;
  // Replicas receive into their gradients.
  const auto bring = [&](int from, Arena<T>& arena) {
    const std::span<T> values =
        from == collective.rank() ? arena.values() : workspace.gradients().values();
    if (collective.size() > 1) collective.broadcast(std::as_writable_bytes(values), from);
    if (collective.rank() != 0) return;
    if (count == gathered_.size()) gathered_.emplace_back(program_.layout().variables);
    std::ranges::copy(values, gathered_[count++].values().begin());
  };
  for (int rank = 1; rank < collective.size(); ++rank)
    for (std::size_t i = 0; i < mine.own_slots(); ++i) bring(rank, mine.slots()[i]);
  for (int rank = 0; has_residuals && rank < collective.size(); rank += replica.local_size())
    bring(rank, workspace.residuals());
}

template <class T>
void RankState<T>::save(std::vector<SavedArray>& slots, std::size_t ranks) const {
  const std::size_t own = variables_.own_slots(), of_ranks = own * (ranks - 1);
  for (std::size_t i = 0; i < gathered_.size(); ++i)
    save_arrays(slots, slots.size(),
                array_list<T>(program_.layout().variables, program_.names().variables,
                              gathered_[i].slices()),
                i < of_ranks ? concat({"/rank_", 1 + i / own, "/slot_", i % own})
                             : concat({"/worker_", i - of_ranks, "/residual"}));
}

template <class T>
bool RankState<T>::fits(const TrainingState& saved, std::size_t first) const {
  if (saved.slots.size() <= first || arrays() == 0) return saved.slots.size() == first;
  const std::size_t rest = saved.slots.size() - first, all = rest / arrays();
  if (rest % arrays() != 0 || saved.world_size < 1) return false;
  const auto ranks = static_cast<std::uint64_t>(saved.world_size);
  const std::uint64_t own = variables_.own_slots();
  if (own > 0 && (ranks > all + 1 || (ranks - 1) * own > all)) return false;
  const std::size_t residuals = all - (ranks - 1) * own;
  return residuals == 0 ||
         (residuals <= ranks &&
          saved.slots[first + (ranks - 1) * own * arrays()].name.ends_with("/residual"));
}

template <class T>
void RankState<T>::load(const TrainingState& saved, std::size_t first,
                        const DistributionContext& place, Arena<T>& residuals, bool check_only) {
  const auto take = [&](std::size_t from, const Arena<T>& to) {
    load_arrays(saved.slots, from,
                array_list<T>(program_.layout().variables, program_.names().variables, to.slices()),
                check_only);
  };
  const bool has_all = saved.slots.size() > first;
  const std::size_t ranks = has_all ? static_cast<std::size_t>(saved.world_size) : 1;
  const std::size_t own = variables_.own_slots(), worker = static_cast<std::size_t>(place.worker);
  for (std::size_t i = 0; own > 0 && i < own_.size(); ++i) {
    const std::size_t rank = (worker * own_.size() + i) % ranks;
    const std::size_t begin = rank == 0 ? 0 : first + (rank - 1) * own * arrays();
    for (std::size_t slot = 0; slot < own; ++slot)
      take(begin + slot * arrays(), variables(i).slots()[slot]);
  }
  const auto workers = static_cast<std::size_t>(place.num_workers);
  const std::size_t begin = first + (ranks - 1) * own * arrays();
  const bool has_residuals = has_all && saved.slots.size() - begin == workers * arrays();
  if (!residuals.values().empty() && has_residuals)
    take(begin + worker * arrays(), residuals);
  else if (!check_only)
    std::ranges::fill(residuals.values(), T(0));
  if (check_only) return;
  gathered_.clear();
  const bool has_same = ranks == workers * own_.size() &&
                        (residuals.values().empty() ? saved.slots.size() == begin : has_residuals);
  if (worker != 0 || !has_all || !has_same) return;
  for (std::size_t from = first; from < saved.slots.size(); from += arrays())
    take(from, gathered_.emplace_back(program_.layout().variables));
}

LOCKSTEP_INSTANCE(class RankState<LOCKSTEP_REAL>);

template <class T>
Trainer<T>::Trainer(const Program<T>& program, std::shared_ptr<AnyStrategy> strategy,
                    std::optional<std::uint64_t> seed, const Synchronization& synchronization,
                    MakeRemoteVariables<T> remote)
    : program_(program),
      strategy_(std::move(strategy)),
      variables_(program,
                 checked(synchronization, program.update_rules(), strategy_->sharded_updates(),
                         program.layout().loss_scale.has_value()),
                 strategy_->sharded_updates()),
      workspaces_(static_cast<std::size_t>(strategy_->local_replicas())),
      given_seed_(seed),
      model_number_(strategy_->is_running() ? 0 : strategy_->count_model()),
      rank_state_(program, variables_, workspaces_.size()),
      remote_(remote(*this)) {
  check_log_form();
  if (program_.device() != nullptr && strategy_->sharded_gradients())
    throw ConfigurationError(
        "compile: the model is computed by a device, whose gradients cannot be shared out: leave "
        "sharded_gradients out; sharded_updates it can have");
  if (program_.device() != nullptr && workspaces_.size() > 1)
    throw ConfigurationError(concat(
        {"compile: the model is computed by a device, and the strategy has ", workspaces_.size(),
         " replicas in this process, which would share it: use OneDeviceStrategy, or a "
         "worker for each device (--workers N)"}));
  variables_.seed = seed ? *seed : std::random_device{}();
  if (strategy_->has_parameter_servers() != (remote_ != nullptr))
    throw ConfigurationError(
        "compile: the strategy has only one of has_parameter_servers() and "
        "remote_variables(trainer), which are needed together: one that wraps a "
        "ParameterServerStrategy passes both on");
  if (remote_) check_for_servers(program_, synchronization);
  start_all();
}

// In an elastic world, the remaining workers go on when one is lost; within a fit, the fit does
// that.
template <class T>
void Trainer<T>::start_all() {
  for (bool together = true;;) {
    try {
      if (!together) strategy_->reconnect();
      strategy_->run([&](AnyReplica& replica) { start(replica); });
      return;
    } catch (const CollectiveError& error) {
      note_failure(error.failure());
      if (strategy_->elastic_world() == nullptr || strategy_->is_running() ||
          error.exit_code() != ExitCode::lost_peer || error.failure().operation == "start-up")
        throw;
      log_line(concat({error.what(), "; this worker waits for the others, and compiles anew"}),
               LogLevel::warning);
      together = false;
    }
  }
}

template <class T>
void Trainer<T>::start(AnyReplica& replica) {
  auto& collective = replica.collective();
  const bool leader = replica.local_rank() == 0;
  if (!remote_ && collective.size() != strategy_->num_replicas_in_sync())
    throw ConfigurationError(
        concat({"compile: the strategy's num_workers() times local_replicas() is ",
                strategy_->num_replicas_in_sync(), ", but the collective of its replicas has ",
                collective.size(), " ranks"}));
  const bool shares_gradients = variables_.shares_updates() && strategy_->sharded_gradients();
  const CommonCall call(replica, "compile",
                        concat({signature_and_policy(), "\nmodels of the strategy: ", model_number_,
                                variables_.shares_updates() ? "\nsharded updates: yes" : "",
                                shares_gradients ? "\nsharded gradients: yes" : ""}));
  const auto allocate = [&](std::size_t bytes) {
    // (Where ranks share memory, they would have each other's arrays in theirs.)
    if (shares_gradients) return paged_buffer(bytes);
    return program_.device() == nullptr ? collective.allocate(bytes) : program_.allocate(bytes);
  };
  auto& workspace = workspaces_[static_cast<std::size_t>(replica.local_rank())];
  if (leader) ++starts_;
  workspace = std::make_unique<Workspace<T>>(program_, allocate);
  rank_state_.start(static_cast<std::size_t>(replica.local_rank()));
  if (!variables_.is_in_rounds() && !shares_gradients && can_update_for_all(program_, replica)) {
    variables_.allocate_parameters(allocate);
  } else if (leader && variables_.shares_updates()) {
    UpdateShares shares = update_shares_of(variables_, replica);
    if (shares_gradients) shares.set_with_gradients();
    variables_.share_updates(std::move(shares), strategy_->worker_index());
    if (variables_.shares().is_of_blocks() && !shares_gradients)
      variables_.allocate_parameters(allocate);
  }
  if (leader && collective.can().keep_residuals && std::same_as<T, float>)
    workspace->keep_residuals();
  // Results depend on the instruction set (fused multiply-add), so all ranks use the lowest one.
  const std::int64_t own_level = -static_cast<std::int64_t>(kernels::instruction_set());
  std::int64_t level = own_level;
  collective.all_reduce(std::span(&level, 1), ReduceOp::max);
  const std::uint64_t seed = from_chief(collective, variables_.seed);
  replica.team_barrier();  // all have read level and seed
  if (leader && level != own_level)
    kernels::set_instruction_set(static_cast<InstructionSet>(-level));
  initialize<T>(program_.layout().state_variables, workspace->state().slices(),
                RandomKey(seed).fold_in(1));
  if (leader) {
    variables_.seed = seed;
    initialize<T>(program_.layout().variables, variables_.parameters().slices(), RandomKey(seed));
  }
  broadcast_from_chief(replica);
  if (leader) connection_ = replica.connection();
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
    LossScale loss_scale;
    if (variables_.scales_loss())
      loss_scale = {from_chief(collective, variables_.loss_scale.value),
                    from_chief(collective, variables_.loss_scale.finite_steps)};
    replica.team_barrier();  // all have read the counters
    if (leader) {
      variables_.set_learning_rate(learning_rate);
      variables_.iterations = iterations;
      variables_.previous_learning_rate = previous_learning_rate;
      variables_.accumulated_steps = accumulated_steps;
      variables_.accumulated_rows = accumulated_rows;
      variables_.set_shows_averages(shows_averages != 0);
      variables_.next_pass = next_pass;
      variables_.loss_scale = loss_scale;
    }
  }
  replica.team_barrier();
  if (variables_.shares().has_gradients()) own.release_gradients();
}

template <class T>
std::unique_ptr<Updater<T>> Trainer<T>::updater(const Parts<T>& parts) const {
  return remote_ ? remote_->updater(parts) : choose_updater(parts);
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
  if (!remote_) return place(local_replicas, local_replica);
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
  const DistributionContext own = place(replica.local_size(), replica.local_rank());
  const ElasticWorld* const world = strategy_->elastic_world();
  const int all = world == nullptr ? 0 : world->workers_of_batch();
  if (all == 0) return {dataset, own};
  return {ResizedBatches(dataset, own.num_workers, all), own};
}

template <class T>
std::vector<NamedArray<T>> Trainer<T>::named_arrays(std::size_t replica) const {
  ProgramNames names = program_.names();
  std::vector<NamedArray<T>> arrays;
  arrays.reserve(names.order.size());
  for (const auto [is_trained, i] : names.order)
    if (is_trained)
      arrays.push_back({std::move(names.variables[i]), &program_.layout().variables[i],
                        variables_.parameters().slices()[i]});
    else
      arrays.push_back({std::move(names.state_variables[i]), &program_.layout().state_variables[i],
                        workspace(replica).state().slices()[i]});
  return arrays;
}

template <class T>
void Trainer<T>::check_variables_are_here(std::string_view call) const {
  if (remote_ == nullptr || !remote_->are_in_fit()) return;
  throw Error(concat({call,
                      ": while fit trains with parameter servers, the variables are theirs: set "
                      "them before the fit, in on_train_end, or after it"}));
}

template <class T>
std::size_t Trainer<T>::slot_count() const noexcept {
  return variables_.slots().size() + shared_slots();
}

template <class T>
std::uint64_t Trainer<T>::state_bytes() const {
  const std::size_t parameters = variables_.parameters().values().size();
  const std::size_t trained =
      parameters * (1 + slot_count()) + variables_.accumulated().values().size();
  // The state may be of a run on many ranks that goes on with few.
  const auto ranks =
      std::max<std::size_t>(64, static_cast<std::size_t>(strategy_->num_replicas_in_sync()));
  const std::size_t own = parameters * ranks * (variables_.own_slots() + (has_residuals() ? 1 : 0));
  return (trained + own + workspace(0).state().values().size()) * sizeof(T);
}

template <class T>
std::string Trainer<T>::signature_and_policy() const {
  const auto& layout = program_.layout();
  std::string text =
      concat({signature(), "\npolicy: ", layout.policy.empty() ? "float" : layout.policy});
  if (layout.loss_scale)
    text += concat({" with initial_scale=", layout.loss_scale->initial_scale,
                    ", dynamic_growth_steps=", layout.loss_scale->dynamic_growth_steps});
  return text;
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
    const CommonCall call(replica, "save", {});
    gather_slots(replica);
  });
}

LOCKSTEP_INSTANCE(class Trainer<LOCKSTEP_REAL>);
}}}  // namespace lockstep::detail

// Trainer: the variables of a model, and its replicas on this worker; what all loops begin with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/distributed_dataset.hpp"
#include "lockstep/data/sharding.hpp"
#include "lockstep/step/parts.hpp"
#include "lockstep/step/synchronization.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/training/fit_part.hpp"
#include "lockstep/training/gathered_slots.hpp"
#include "lockstep/training/named_arrays.hpp"
#include "lockstep/training/rank_state.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Shows the other workers which call this one is in, until the end of the scope.
[[nodiscard]] inline ActivityScope show_call(AnyReplica& replica, const char* call) {
  return ActivityScope(replica.local_rank() == 0 ? replica.collective().board() : nullptr,
                       {.call = call});
}

/// A Program, its variables, and a workspace for each replica of this process, under a strategy:
/// what all loops over a model (loops.hpp) begin with. All of training that does not depend on the
/// user's types: compiled once for each scalar type. Used by one thread, but for what is called by
/// replicas; `program` must outlive it.
template <class T>
class Trainer {
 public:
  /// Waits for the other workers, compares their programs with this one, and starts from the
  /// chief's seed and variables. Without `seed` one is drawn. Throws ConfigurationError for a
  /// synchronization that makes no sense, or not for this optimizer. `remote` makes what trains the
  /// variables in place of this process, if the strategy has that.
  Trainer(const Program<T>& program, std::shared_ptr<AnyStrategy> strategy,
          std::optional<std::uint64_t> seed, const Synchronization& synchronization = {},
          MakeRemoteVariables<T> remote = no_remote_variables);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  [[nodiscard]] const Program<T>& program() const noexcept { return program_; }
  [[nodiscard]] AnyStrategy& strategy() const noexcept { return *strategy_; }
  /// The seed that the program has asked for; nothing where one was drawn.
  [[nodiscard]] const std::optional<std::uint64_t>& given_seed() const noexcept {
    return given_seed_;
  }
  [[nodiscard]] Variables<T>& variables() noexcept { return variables_; }
  [[nodiscard]] const Variables<T>& variables() const noexcept { return variables_; }
  [[nodiscard]] bool has_targets() const noexcept { return program_.layout().targets > 0; }
  [[nodiscard]] std::size_t replicas() const noexcept { return workspaces_.size(); }
  [[nodiscard]] Workspace<T>& workspace(std::size_t replica) const noexcept {
    return *workspaces_[replica];
  }

  [[nodiscard]] bool is_in_fit() const noexcept { return is_in_fit_; }
  void begin_fit() noexcept {
    is_in_fit_ = true;
    if (!strategy_->is_running()) ++fits_;
  }
  void end_fit() noexcept { is_in_fit_ = false; }
  /// Fits of this model that this process has begun, without those in a callback of another fit:
  /// such a fit begins again with that one.
  [[nodiscard]] std::int64_t fits() const noexcept { return fits_; }
  /// nullptr where this process trains its variables itself.
  [[nodiscard]] RemoteVariables<T>* remote() const noexcept { return remote_.get(); }
  /// Where others train them, within a fit: copies theirs, to be saved.
  void catch_up() {
    if (remote_ && remote_->are_in_fit()) remote_->pull();
  }

  /// Every variable in one replica, layer by layer, the trained ones before the others.
  [[nodiscard]] std::vector<NamedArray<T>> named_arrays(std::size_t replica) const;

  /// What ranks must have in common, a line for each thing.
  [[nodiscard]] std::string signature() const;

  // What a saved state needs from the other workers.

  /// Where the workers share out updates, the chief needs the slots of all to save a state: called
  /// by all workers; in a step's place, by all replicas. In fit, they are there where a state is
  /// complete (see Training::state).
  void gather_slots() const;
  void gather_slots(AnyReplica& replica) const;
  /// Whether the chief has all that a state needs.
  [[nodiscard]] bool has_all_slots() const noexcept;
  /// Where they are then; empty on other workers than the chief.
  [[nodiscard]] std::span<const Arena<T>> whole_slots() const noexcept {
    return gathered_->whole();
  }
  /// Frees what gather_slots() has brought. Called by the first replica of each worker.
  void release_slots() const noexcept { gathered_->release(); }

  [[nodiscard]] RankState<T>& rank_state() noexcept { return rank_state_; }
  [[nodiscard]] const RankState<T>& rank_state() const noexcept { return rank_state_; }
  [[nodiscard]] bool has_residuals() const noexcept {
    return !workspace(0).residuals().values().empty();
  }
  /// Whether ranks differ in what a saved state needs.
  [[nodiscard]] bool ranks_differ() const noexcept {
    return variables_.own_slots() > 0 || has_residuals();
  }
  /// Whether a worker that is lost takes a part of the optimizer's state along.
  [[nodiscard]] bool is_state_spread() const noexcept {
    return variables_.shares_updates() || variables_.is_in_rounds();
  }
  /// Called by all ranks: what differs is in the states that the chief saves from now on.
  void gather_rank_state(AnyReplica& replica);
  /// States that the chief saves from now on do without it.
  void forget_rank_state() noexcept { rank_state_.forget(); }

  // For the loops, on each replica.

  /// How the gradients of a step become new parameters.
  [[nodiscard]] std::unique_ptr<Updater<T>> updater(const Parts<T>& parts) const;

  /// What the constructor does. Afterwards the arrays and the shares of the update are new ones.
  void start(AnyReplica& replica);
  [[nodiscard]] std::int64_t starts() const noexcept { return starts_; }
  /// That of the last start that has ended: see AnyReplica.
  [[nodiscard]] int connection() const noexcept { return connection_; }
  /// The chief's variables go to all workers.
  void broadcast_from_chief(AnyReplica& replica);

  [[nodiscard]] Parts<T> parts(AnyReplica& replica) {
    return {program_, variables_, workspace(static_cast<std::size_t>(replica.local_rank())),
            replica};
  }
  /// For training steps: with rounds, each replica has variables of its own.
  [[nodiscard]] Parts<T> training_parts(AnyReplica& replica) {
    const auto index = static_cast<std::size_t>(replica.local_rank());
    return {program_, rank_state_.variables(index), workspace(index), replica};
  }

  [[nodiscard]] DistributionContext place(int local_replicas = 1, int local_replica = 0) const;
  /// For one pass over data in inference: with parameter servers, each worker makes it alone, over
  /// all of the data.
  [[nodiscard]] DistributionContext pass_place(int local_replicas = 1, int local_replica = 0) const;
  /// A replica's part of the data of a fit.
  [[nodiscard]] DistributedDataset<AnyDataset> distribute_training(const AnyDataset& dataset,
                                                                   const AnyReplica& replica) const;
  /// A replica's part of other data.
  [[nodiscard]] DistributedDataset<AnyDataset> distribute(
      const AnyDataset& dataset, const AnyReplica& replica,
      std::optional<AutoShardPolicy> policy = std::nullopt) const;

 private:
  void start_all();

  const Program<T>& program_;
  const std::shared_ptr<AnyStrategy> strategy_;
  Variables<T> variables_;
  const std::unique_ptr<GatheredSlots<T>> gathered_ = std::make_unique<GatheredSlots<T>>();
  std::vector<std::unique_ptr<Workspace<T>>> workspaces_;  // made by each replica's own thread
  const std::optional<std::uint64_t> given_seed_;
  const int model_number_;  // 0 for one that is compiled in a callback
  RankState<T> rank_state_;
  const std::unique_ptr<RemoteVariables<T>> remote_;
  bool is_in_fit_ = false;
  std::int64_t fits_ = 0;
  std::int64_t starts_ = 0;
  int connection_ = 0;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/trainer.ipp"
#endif

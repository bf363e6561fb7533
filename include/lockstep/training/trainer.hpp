// Trainer: a compiled model as fit, evaluate, predict and files see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/callbacks/callback_hooks.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/distributed_dataset.hpp"
#include "lockstep/data/distribution_context.hpp"
#include "lockstep/step/parts.hpp"
#include "lockstep/step/synchronization.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/training/fit_options.hpp"
#include "lockstep/training/gathered_slots.hpp"
#include "lockstep/training/history.hpp"
#include "lockstep/training/named_arrays.hpp"
#include "lockstep/training/rank_state.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A Program, its variables, and a workspace for each replica of this process, under a strategy.
/// All of training that does not depend on the user's types: compiled once for each scalar type.
/// Used by one thread; `program` must outlive it.
template <class T>
class Trainer {
 public:
  /// Waits for the other workers, compares their programs with this one, and starts from the
  /// chief's seed and variables. Without `seed` one is drawn. Throws ConfigurationError for a
  /// synchronization that makes no sense, or not for this optimizer.
  Trainer(const Program<T>& program, std::unique_ptr<AnyStrategy> strategy,
          std::optional<std::uint64_t> seed, const Synchronization& synchronization = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // What Model has under these names.
  History fit(const AnyDataset& dataset, const FitOptions& options, CallbackHooks& callbacks);
  Logs evaluate(const AnyDataset& dataset, const EvaluateOptions& options,
                CallbackHooks& callbacks);
  /// The rows, one after the other.
  std::vector<T> predict(const AnyDataset& dataset, const PredictOptions& options,
                         CallbackHooks& callbacks);
  void adapt(const AnyDataset& dataset, const AdaptOptions& options);

  [[nodiscard]] const Program<T>& program() const noexcept { return program_; }
  [[nodiscard]] AnyStrategy& strategy() const noexcept { return *strategy_; }
  [[nodiscard]] Variables<T>& variables() noexcept { return variables_; }
  [[nodiscard]] const Variables<T>& variables() const noexcept { return variables_; }
  [[nodiscard]] std::size_t replicas() const noexcept { return workspaces_.size(); }
  [[nodiscard]] Workspace<T>& workspace(std::size_t replica) const noexcept {
    return *workspaces_[replica];
  }
  [[nodiscard]] bool is_in_fit() const noexcept { return is_in_fit_; }

  /// Every variable in one replica, layer by layer, the trained ones before the others.
  [[nodiscard]] std::vector<NamedArray<T>> named_arrays(std::size_t replica) const;

  /// What ranks must have in common, a line for each thing.
  [[nodiscard]] std::string signature() const;
  /// The state between two calls of fit. The arrays are put into the memory of `reused` where they
  /// fit. `before_step`: within a window of steps, that before it (see Workspace::begin_step).
  [[nodiscard]] TrainingState save_state(TrainingState reused = {}, bool before_step = false) const;
  /// Within a fit with parameter servers: their variables become this worker's, to be saved.
  void catch_up();
  /// Where the workers share out updates, the chief needs the slots of all for save_state(): called
  /// by all workers; in a step's place, by all replicas. In fit, they are there where a state is
  /// complete (see Training::state).
  void gather_slots() const;
  void gather_slots(AnyReplica& replica) const;
  /// Whether save_state() has all that it needs on the chief.
  [[nodiscard]] bool has_all_slots() const noexcept;
  /// Frees what gather_slots() has brought. Called by the first replica of each worker.
  void release_slots() const noexcept { gathered_->release(); }
  /// Bytes of all arrays of save_state().
  [[nodiscard]] std::uint64_t state_bytes() const;
  /// Throws ConfigurationError, having changed nothing, when `saved` belongs to another program.
  void restore_state(const TrainingState& saved);

  // For the loops, on each replica.

  [[nodiscard]] Parts<T> parts(AnyReplica& replica) {
    return {program_, variables_, workspace(static_cast<std::size_t>(replica.local_rank())),
            replica};
  }
  /// For training steps: with rounds, each replica has variables of its own.
  [[nodiscard]] Parts<T> training_parts(AnyReplica& replica) {
    const auto index = static_cast<std::size_t>(replica.local_rank());
    return {program_, rank_state_.variables(index), workspace(index), replica};
  }
  [[nodiscard]] const RankState<T>& rank_state() const noexcept { return rank_state_; }
  /// Whether ranks differ in what a saved state needs.
  [[nodiscard]] bool ranks_differ() const noexcept {
    return variables_.own_slots() > 0 || has_residuals();
  }
  /// Called by all ranks: what differs is in the states that the chief saves from now on.
  void gather_rank_state(AnyReplica& replica);
  /// It is not.
  void forget_rank_state() noexcept { rank_state_.forget(); }
  /// What the constructor does.
  void start(AnyReplica& replica);
  /// The chief's variables go to all workers.
  void broadcast_from_chief(AnyReplica& replica);

  [[nodiscard]] DistributionContext place(int local_replicas = 1, int local_replica = 0) const;
  /// For data that are passed once in inference: with parameter servers, each worker is alone with
  /// them.
  [[nodiscard]] DistributionContext pass_place(int local_replicas = 1, int local_replica = 0) const;
  /// A replica's part of the data of a fit.
  [[nodiscard]] DistributedDataset<AnyDataset> distribute_training(const AnyDataset& dataset,
                                                                   const AnyReplica& replica) const;
  /// A replica's part of other data.
  [[nodiscard]] DistributedDataset<AnyDataset> distribute(
      const AnyDataset& dataset, const AnyReplica& replica,
      std::optional<AutoShardPolicy> policy = std::nullopt) const;

 private:
  [[nodiscard]] bool has_residuals() const noexcept {
    return !workspace(0).residuals().values().empty();
  }
  [[nodiscard]] std::size_t slot_count() const noexcept;
  [[nodiscard]] const Arena<T>& whole_slot(std::size_t number) const;
  void load_slot(const TrainingState& saved, std::size_t number, bool check_only);

  const Program<T>& program_;
  const std::unique_ptr<AnyStrategy> strategy_;
  bool is_in_fit_ = false;
  Variables<T> variables_;
  const std::unique_ptr<GatheredSlots<T>> gathered_ = std::make_unique<GatheredSlots<T>>();
  std::vector<std::unique_ptr<Workspace<T>>> workspaces_;  // made by each replica's own thread
  RankState<T> rank_state_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/training/trainer.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI::detail {
LOCKSTEP_INSTANCE(class Trainer<float>);
LOCKSTEP_INSTANCE(class Trainer<double>);
}  // namespace lockstep::inline LOCKSTEP_ABI::detail

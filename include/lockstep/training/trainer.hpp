// Trainer: the variables of a model, and its replicas on this worker; what all loops begin with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/collectives/concepts.hpp"
#include "lockstep/core/arena.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/distributed_dataset.hpp"
#include "lockstep/data/sharding.hpp"
#include "lockstep/step/constraints.hpp"
#include "lockstep/step/parts.hpp"
#include "lockstep/step/program.hpp"
#include "lockstep/step/synchronization.hpp"
#include "lockstep/step/variables.hpp"
#include "lockstep/step/workspace.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/training/fit_part.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Throws ConfigurationError unless it makes sense.
inline const Synchronization& checked(const Synchronization& synchronization,
                                      const UpdateRules& rules, bool shares_updates,
                                      bool scales_loss) {
  synchronization.validate();
  if (synchronization.is_in_rounds() && scales_loss)
    throw ConfigurationError(concat(
        {"compile: ", synchronization.description(),
         " with MixedFloat16: all ranks have one loss scale, and in a round they do not meet; take "
         "MixedBFloat16, which needs none, or no rounds"}));
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

/// Throws ConfigurationError, naming it, when the optimizer or a variable asks for something that
/// servers cannot do, each of which sees a range of the parameters.
template <class T>
void check_for_servers(const Program<T>& program, const Synchronization& synchronization) {
  const UpdateRules rules = program.update_rules();
  const bool has_constraints = !Constraints<T>(program.layout().variables).empty();
  const char* const what =
      rules.clipping.is_by_norm() ? "clipnorm and global_clipnorm need all gradients of a step"
      : rules.averaging.is_on     ? "use_ema keeps averages that workers do not see"
      : rules.accumulation_steps != 1
          ? "gradient_accumulation_steps adds gradients of several steps"
      : synchronization.is_in_rounds() ? "LocalSGD and DiLoCo update in each rank"
      : has_constraints                ? "a variable's constraint needs it whole"
      : program.device() != nullptr    ? "the model is computed by a device"
      : program.layout().loss_scale ? "the loss scale of MixedFloat16 needs all gradients of a step"
                                    : nullptr;
  if (what == nullptr) return;
  throw ConfigurationError(
      concat({"compile: ParameterServerStrategy: ", what,
              ", and each server sees a range of the parameters: leave the option out, or train "
              "with MultiWorkerMirroredStrategy"}));
}

/// The whole arrays that the chief saves of an optimizer whose slots are spread over the workers,
/// as it last gathered them. They are valid until the next update.
template <class T>
class GatheredSlots {
 public:
  /// Called by all replicas of all workers, between two steps.
  void gather(const Program<T>& program, const Variables<T>& variables, AnyReplica& replica) {
    auto& collective = replica.collective();
    const bool leader = replica.local_rank() == 0;
    const bool is_chief = collective.rank() == 0;
    if (leader) {
      whole_.clear();
      for (std::size_t i = 0; is_chief && i < program.layout().slots; ++i)
        whole_.emplace_back(program.layout().variables);
    }
    const Buffer passing(is_chief ? 0 : most * sizeof(T));
    for (std::size_t slot = 0; slot < program.layout().slots; ++slot)
      for (int worker = 0; worker < variables.shares().workers(); ++worker)
        for (const SharePiece& piece : variables.shares().of(worker))
          for (std::size_t done = 0; done < piece.size; done += most) {
            const std::size_t size = std::min(most, piece.size - done);
            std::span<T> values(reinterpret_cast<T*>(passing.data()), is_chief ? 0 : size);
            if (is_chief) values = whole_[slot].values().subspan(piece.begin + done, size);
            if (leader && worker == variables.worker()) {
              const auto mine = variables.slot_share(slot).subspan(piece.place + done, size);
              std::ranges::copy(mine, values.begin());
            }
            collective.broadcast(std::as_writable_bytes(values), worker * replica.local_size());
          }
    replica.team_barrier();
    if (leader) {
      iterations_ = variables.iterations;
      revision_ = variables.revision;
    }
    replica.team_barrier();
  }

  /// The same on all workers.
  [[nodiscard]] bool are_of(const Variables<T>& variables) const noexcept {
    return iterations_ == variables.iterations && revision_ == variables.revision;
  }
  /// Empty on other workers than the chief.
  [[nodiscard]] std::span<const Arena<T>> whole() const noexcept { return whole_; }
  void release() noexcept {
    iterations_ = -1;
    whole_ = std::vector<Arena<T>>();  // with its memory
  }

 private:
  static constexpr std::size_t most = std::size_t{1} << 16;  // elements that are sent at a time

  std::vector<Arena<T>> whole_;
  std::int64_t iterations_ = -1;
  std::int64_t revision_ = -1;
};

/// With rounds (see Synchronization), each replica has variables: the first one of a process trains
/// those of the process, and those of the others are here. Also gathers on the chief what a saved
/// state needs of each rank: with rounds, the slots of its optimizer; with error feedback, its
/// residuals.
///
/// In the state they stand behind the other slots: the slots of ranks 1, 2, ..., then the residuals
/// of the workers. (The slots of rank 0 have their usual place.)
template <class T>
class RankState {
 public:
  /// `variables`: the process's.
  RankState(const Program<T>& program, Variables<T>& variables, std::size_t replicas)
      : program_(program), variables_(variables), own_(replicas) {}

  /// Called first, by each replica on its thread.
  void start(std::size_t replica);
  /// The variables that a replica trains.
  [[nodiscard]] Variables<T>& variables(std::size_t replica) const noexcept {
    return own_[replica] ? *own_[replica] : variables_;
  }
  /// Called by all replicas before steps, when the first one may have changed the variables: the
  /// others take them over.
  void begin_steps(AnyReplica& replica) const;
  /// Sets it in all replicas.
  void set_learning_rate(double learning_rate) const;
  /// Copies the parameters of the first replica to the others.
  void share_parameters() const;

  /// Called by all ranks: the chief gets what differs between them.
  void gather(AnyReplica& replica, Workspace<T>& workspace, bool has_residuals);
  /// Drops what was gathered, so that it is not saved.
  void forget() noexcept { gathered_.clear(); }

  /// Appends what was gathered to `slots`.
  void save(std::vector<SavedArray>& slots, std::size_t ranks) const;
  /// Whether load could take what a state has behind its first `first` slots.
  [[nodiscard]] bool fits(const TrainingState& saved, std::size_t first) const;
  /// Takes out what belongs to the replicas of the process at `place`. With another number of
  /// ranks, rank r takes the slots of rank r mod that number; with another number of workers,
  /// residuals become zeros. The chief has all of it again, for the next state. `check_only` copies
  /// nothing.
  void load(const TrainingState& saved, std::size_t first, const DistributionContext& place,
            Arena<T>& residuals, bool check_only);

 private:
  [[nodiscard]] std::size_t arrays() const noexcept { return program_.layout().variables.size(); }

  const Program<T>& program_;
  Variables<T>& variables_;
  std::vector<std::unique_ptr<Variables<T>>> own_;
  std::vector<Arena<T>> gathered_;  // on the chief
};

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
  /// In a fit whose variables other processes train: copies these, to be saved.
  void catch_up() {
    if (remote_ && remote_->are_in_fit()) remote_->pull();
  }

  /// See loops.hpp.
  void check_variables_are_here(std::string_view call) const;
  /// Every variable in one replica, layer by layer, the trained ones before the others.
  [[nodiscard]] std::vector<NamedArray<T>> named_arrays(std::size_t replica) const;

  /// What ranks must have in common, a line for each thing.
  [[nodiscard]] std::string signature() const;
  /// That and the policy of precision, which processes share and files do not.
  [[nodiscard]] std::string signature_and_policy() const;

  /// Bytes of all arrays of a saved state.
  [[nodiscard]] std::uint64_t state_bytes() const;
  /// The optimizer's slots, averages, and the outer optimizer's.
  [[nodiscard]] std::size_t slot_count() const noexcept;
  /// Where the workers share out updates, the optimizer's slots that are spread over them.
  [[nodiscard]] std::size_t shared_slots() const noexcept {
    return variables_.shares_updates() ? program_.layout().slots : 0;
  }

  // What a saved state needs from the other workers.

  /// Where the workers share out updates, the chief needs the slots of all to save a state. Called
  /// by all workers, or, between two steps, by all replicas. In fit, the chief has them where a
  /// state is complete (see Training::state).
  void gather_slots() const;
  void gather_slots(AnyReplica& replica) const;
  /// Whether the chief has all that a state needs.
  [[nodiscard]] bool has_all_slots() const noexcept;
  /// These slots; empty on workers other than the chief.
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
  /// Called by all ranks: the states that the chief saves from now on have what differs.
  void gather_rank_state(AnyReplica& replica);
  /// The states that the chief saves from now on leave it out.
  void forget_rank_state() noexcept { rank_state_.forget(); }

  // For the loops, on each replica.

  /// How the gradients of a step become new parameters.
  [[nodiscard]] std::unique_ptr<Updater<T>> updater(const Parts<T>& parts) const;

  /// What the constructor does, and again after a reconnect: the arrays and the shares of the
  /// update are new then.
  void start(AnyReplica& replica);
  [[nodiscard]] std::int64_t starts() const noexcept { return starts_; }
  /// The connection (see AnyReplica) of the last start that was completed.
  [[nodiscard]] int connection() const noexcept { return connection_; }
  /// Sends the chief's variables to all workers.
  void broadcast_from_chief(AnyReplica& replica);

  [[nodiscard]] Parts<T> parts(AnyReplica& replica) {
    return {program_, variables_, workspace(static_cast<std::size_t>(replica.local_rank())),
            replica};
  }
  /// For training steps: with rounds, each replica has its own variables.
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
  std::vector<std::unique_ptr<Workspace<T>>> workspaces_;  // made by each replica's thread
  const std::optional<std::uint64_t> given_seed_;
  const int model_number_;  // 0 for one that is compiled in a callback
  RankState<T> rank_state_;
  const std::unique_ptr<RemoteVariables<T>> remote_;
  bool is_in_fit_ = false;
  std::int64_t fits_ = 0;
  std::int64_t starts_ = 0;
  int connection_ = 0;
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/trainer.ipp"
#endif

// What differs between ranks while they train.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/arena.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/data/sharding.hpp"
#include "lockstep/step/parts.hpp"
#include "lockstep/step/program.hpp"
#include "lockstep/step/variables.hpp"
#include "lockstep/step/workspace.hpp"
#include "lockstep/strategies/any_strategy.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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
  /// `variables`: those that the process has.
  RankState(const Program<T>& program, Variables<T>& variables, std::size_t replicas)
      : program_(program), variables_(variables), own_(replicas) {}

  /// Called by each replica on its own thread, at first.
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
  /// Drops what was gathered: it is not to be saved.
  void forget() noexcept { gathered_.clear(); }

  /// Puts what was gathered into `slots`, at their end.
  void save(std::vector<SavedArray>& slots, std::size_t ranks) const;
  /// Whether a state may have what it has behind its first `first` slots.
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/rank_state.ipp"
#endif

// WholeState: before a state may be saved, the chief gets what differs between ranks, and all
// compare what must not differ.
#pragma once

#include <string_view>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/training/fit.hpp"
#include "lockstep/training/replica_checksums.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Compares replicas (FitOptions::verify_replicas), and gathers slots that are spread over workers
/// (sharded_updates) and what each rank has for itself (rounds, residuals).
template <class T>
class WholeState final : public FitPart<T> {
 public:
  explicit WholeState(FitState<T>& fit) : fit_(fit) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "whole state"; }

  /// What was compared and gathered is out of date.
  void before_step(FitRank<T>& rank) override {
    rank.has_gathered = false;
    if (!rank.is_leader) return;
    fit_.is_whole = false;
    fit_.trainer.release_slots();
  }

  void complete(FitRank<T>& rank) override {
    if (!std::exchange(rank.has_gathered, true)) fit_.trainer.gather_rank_state(rank.replica);
    rank.replica.team_barrier();  // a callback may have changed the model
    if (fit_.options.verify_replicas) verify_replicas(fit_.trainer.parts(rank.replica));
    gather_slots(rank.replica);
    if (rank.is_leader) fit_.is_whole = true;
  }

  void leave(FitRank<T>& rank, const FitEnd& end) override {
    if (end.preemption != ExitCode::success)
      complete(rank);
    else if (!end.leaves_world)
      gather_slots(rank.replica);
  }

 private:
  void gather_slots(AnyReplica& replica) const {
    if (fit_.any_rank_has.complete_state && !fit_.trainer.has_all_slots())
      fit_.trainer.gather_slots(replica);
  }

  FitState<T>& fit_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

// The Replica that the library's strategies hand out.
#pragma once

#include <utility>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/strategies/concepts.hpp"
#include "lockstep/strategies/replica_threads.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A replica's place and its collective. Where the collective spans several processes it has a
/// `team()`, the collective of this process's replicas alone.
template <Collective C>
class CollectiveReplica {
 public:
  /// `threads`: those of the process's replicas, if there are several.
  CollectiveReplica(C collective, int local_rank, int local_size, ReplicaThreads* threads = nullptr)
      : collective_(std::move(collective)),
        local_rank_(local_rank),
        local_size_(local_size),
        threads_(threads) {}

  [[nodiscard]] C& collective() noexcept { return collective_; }
  [[nodiscard]] int local_rank() const noexcept { return local_rank_; }
  [[nodiscard]] int local_size() const noexcept { return local_size_; }

  void team_barrier() {
    if constexpr (TeamedCollective<C>)
      collective_.team().barrier();
    else
      collective_.barrier();
  }

  /// See Replica.
  template <class F>
  void team_lead(F&& f) {
    if (threads_ != nullptr)
      threads_->lead(local_rank_, f);
    else if (local_rank_ == 0)
      f();
  }

 private:
  C collective_;
  int local_rank_;
  int local_size_;
  ReplicaThreads* threads_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

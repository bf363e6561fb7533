// The Replica that the library's strategies hand out.
#pragma once

#include <memory>
#include <utility>

#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/replica_threads.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A replica's place, its collective, and the threads that it can lead.
class CollectiveReplica : public AnyReplica {
 public:
  /// `threads`: those of the process's replicas, if there are several.
  CollectiveReplica(std::shared_ptr<AnyCollective> collective, int local_rank, int local_size,
                    ReplicaThreads* threads = nullptr, int connection = 0)
      : AnyReplica(std::move(collective), local_rank, local_size, connection), threads_(threads) {}

  /// See Replica.
  void team_lead(FunctionRef<void()> f) override {
    if (threads_ != nullptr)
      threads_->lead(local_rank(), f);
    else if (local_rank() == 0)
      f();
  }

 private:
  ReplicaThreads* threads_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

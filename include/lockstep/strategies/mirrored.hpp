// Replicas on the threads of one process.
#pragma once

#include <deque>
#include <memory>

#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/threads/in_process.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/concepts.hpp"
#include "lockstep/strategies/own_loops.hpp"
#include "lockstep/strategies/replica_threads.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

struct MirroredOptions {
  int replicas = 0;  ///< threads; 0: one for each core that the process may use (usable_cores)
  CommunicationOptions communication_options = {};
  Pinning pinning = Pinning::automatic;
};

/// Trains on several threads, each with a replica and a part of each batch. After a
/// failure that the program survives, it can be used again.
///
/// One thread calls run() at a time.
/// Use: `MirroredStrategy{}`.
class MirroredStrategy : public AnyStrategy, public OwnLoops<MirroredStrategy> {
 public:
  using Replica = AnyReplica;

  /// Starts the threads. Throws ConfigurationError when an option makes no sense.
  explicit MirroredStrategy(const MirroredOptions& options = {});

  [[nodiscard]] int num_workers() const override { return 1; }
  [[nodiscard]] int worker_index() const override { return 0; }
  [[nodiscard]] int local_replicas() const override { return group_.size(); }
  [[nodiscard]] bool is_running() const override { return threads_.is_running(); }

  /// See Strategy.
  LOCKSTEP_INLINE_VIRTUAL void run(FunctionRef<void(Replica&)> f) override;
  template <class F>
  detail::PerReplicaOf<F, Replica> run(F&& f) {
    return detail::run_per_replica<Replica>(
        local_replicas(), f, [this](auto& each) { run(FunctionRef<void(Replica&)>(each)); });
  }

  /// Without an adapter. (One of a derived class, whose run() may differ, is adapted.)
  friend std::shared_ptr<AnyStrategy> any_strategy(MirroredStrategy& strategy) {
    return {std::shared_ptr<void>(), &strategy};
  }

 private:
  InProcessGroup group_;
  ReplicaThreads threads_;
  std::deque<Replica> replicas_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/strategies/mirrored.ipp"
#endif

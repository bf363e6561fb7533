// One replica, on the caller's thread.
#pragma once

#include <memory>
#include <string_view>

#include "lockstep/collectives/policies/single.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/concepts.hpp"
#include "lockstep/strategies/own_loops.hpp"
#include "lockstep/strategies/replica_threads.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Trains alone on one thread: no network, no other threads.
/// Use: `OneDeviceStrategy{}`.
class OneDeviceStrategy : public OwnLoops<OneDeviceStrategy> {
 public:
  using Replica = AnyReplica;

  /// How many processes train together: a global batch is that many times the batch of one.
  [[nodiscard]] int num_workers() const noexcept { return 1; }
  /// The number of this process among them, from 0.
  [[nodiscard]] int worker_index() const noexcept { return 0; }
  /// Whether this process is the one that writes files and prints, number 0: `if
  /// (strategy.is_chief()) std::printf(...)`.
  [[nodiscard]] bool is_chief() const noexcept { return true; }
  /// The replicas of this process, each on a thread.
  [[nodiscard]] int local_replicas() const noexcept { return 1; }
  /// The replicas of all processes.
  [[nodiscard]] int num_replicas_in_sync() const noexcept { return 1; }

  /// Whether run() is under way.
  [[nodiscard]] bool is_running() const { return threads_.is_running(); }

  /// See Strategy.
  void run(FunctionRef<void(Replica&)> f) {
    const auto no_others = [](int, std::string_view, ExitCode) {};
    threads_.run([&](int) { f(replica_); }, no_others);
  }
  template <class F>
  detail::PerReplicaOf<F, Replica> run(F&& f) {
    return detail::run_per_replica<Replica>(
        1, f, [this](auto& each) { run(FunctionRef<void(Replica&)>(each)); });
  }

 private:
  ReplicaThreads threads_{1};  // the caller's, which knows when it is free for another call
  Replica replica_{any_collective(Single{}), 0, 1, &threads_};
};

LOCKSTEP_EXTERN(std::shared_ptr<AnyStrategy> any_strategy(OneDeviceStrategy&));

}}  // namespace lockstep

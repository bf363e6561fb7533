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
class OneDeviceStrategy : public AnyStrategy, public OwnLoops<OneDeviceStrategy> {
 public:
  using Replica = AnyReplica;

  [[nodiscard]] int num_workers() const override { return 1; }
  [[nodiscard]] int worker_index() const override { return 0; }
  [[nodiscard]] int local_replicas() const override { return 1; }
  [[nodiscard]] bool is_running() const override { return threads_.is_running(); }

  /// See Strategy.
  void run(FunctionRef<void(Replica&)> f) override {
    const auto no_others = [](int, std::string_view, ExitCode) {};
    threads_.run([&](int) { f(replica_); }, no_others);
  }
  template <class F>
  detail::PerReplicaOf<F, Replica> run(F&& f) {
    return detail::run_per_replica<Replica>(
        1, f, [this](auto& each) { run(FunctionRef<void(Replica&)>(each)); });
  }

  /// Without an adapter. (One of a derived class, whose run() may differ, is adapted.)
  friend std::shared_ptr<AnyStrategy> any_strategy(OneDeviceStrategy& strategy) {
    return {std::shared_ptr<void>(), &strategy};
  }

 private:
  ReplicaThreads threads_{1};  // the caller's, which knows when it is free for another call
  Replica replica_{any_collective(Single{}), 0, 1, &threads_};
};

}}  // namespace lockstep

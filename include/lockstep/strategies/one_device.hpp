// One replica, on the caller's thread.
#pragma once

#include "lockstep/collectives/policies/single.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/strategies/concepts.hpp"
#include "lockstep/strategies/replica.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Trains alone on one thread: no network, no other threads.
class OneDeviceStrategy {
 public:
  using Replica = CollectiveReplica<Single>;

  [[nodiscard]] int num_workers() const noexcept { return 1; }
  [[nodiscard]] int worker_index() const noexcept { return 0; }
  [[nodiscard]] bool is_chief() const noexcept { return true; }
  [[nodiscard]] int local_replicas() const noexcept { return 1; }
  [[nodiscard]] int num_replicas_in_sync() const noexcept { return 1; }

  template <class F>
  void run(F&& f) {
    f(replica_);
  }

 private:
  Replica replica_{Single{}, 0, 1};
};

static_assert(Strategy<OneDeviceStrategy>);

}  // namespace lockstep::inline LOCKSTEP_ABI

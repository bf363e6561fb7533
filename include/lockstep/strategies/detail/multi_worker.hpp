// What of a MultiWorkerMirroredStrategy is the same for every policy: its place, its worlds, and
// when it connects.
#pragma once

#include <memory>

#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/strategies/detail/worker_connections.hpp"
#include "lockstep/strategies/multi_worker_options.hpp"
#include "lockstep/strategies/replica_threads.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

class ElasticWorld;

namespace detail {

/// See MultiWorkerMirroredStrategy, whose members these are.
class MultiWorker {
 public:
  /// In the cluster that the environment names.
  MultiWorker(std::unique_ptr<WorkerConnections> connections,
              const MultiWorkerMirroredOptions& options);
  MultiWorker(std::unique_ptr<WorkerConnections> connections, const Cluster& cluster,
              const MultiWorkerMirroredOptions& options);
  MultiWorker(const MultiWorker&) = delete;
  MultiWorker& operator=(const MultiWorker&) = delete;
  ~MultiWorker();

  void reconnect();
  [[nodiscard]] const Cluster& cluster() const noexcept;
  [[nodiscard]] const ReplicaThreads& threads() const noexcept;
  [[nodiscard]] const ElasticWorld* world() const noexcept;
  [[nodiscard]] bool sharded_updates() const noexcept;

  /// Calls f with the address of each replica, on its thread.
  void run(FunctionRef<void(void*)> f);

 private:
  class Impl;

  std::unique_ptr<Impl> impl_;
};

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/strategies/detail/multi_worker.ipp"
#endif

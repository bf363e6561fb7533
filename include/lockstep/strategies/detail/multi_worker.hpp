// All of MultiWorkerMirroredStrategy but its policy.
#pragma once

#include <deque>
#include <memory>

#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/collectives/policies/hierarchical.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/strategies/elastic_world.hpp"
#include "lockstep/strategies/multi_worker_options.hpp"
#include "lockstep/strategies/replica.hpp"
#include "lockstep/strategies/replica_threads.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// See MultiWorkerMirroredStrategy, whose members these are.
class MultiWorker {
 public:
  using PolicyConnect = std::shared_ptr<AnyCollective> (*)(const Rendezvous&,
                                                           const CommunicationOptions&);

  /// In the cluster that the environment names.
  MultiWorker(PolicyConnect policy, const MultiWorkerMirroredOptions& options);
  MultiWorker(PolicyConnect policy, const Cluster& cluster,
              const MultiWorkerMirroredOptions& options);
  MultiWorker(const MultiWorker&) = delete;
  MultiWorker& operator=(const MultiWorker&) = delete;
  ~MultiWorker();

  void reconnect();
  [[nodiscard]] const Cluster& cluster() const noexcept { return cluster_; }
  [[nodiscard]] const ReplicaThreads& threads() const noexcept { return threads_; }
  [[nodiscard]] const ElasticWorld* world() const noexcept { return worlds_.get(); }
  [[nodiscard]] bool sharded_updates() const noexcept { return sharded_updates_; }

  /// Calls f with each replica, on its thread.
  void run(FunctionRef<void(CollectiveReplica&)> f);

 private:
  void tell_failure() noexcept;
  [[nodiscard]] Cluster checked(const Cluster& cluster) const;
  [[nodiscard]] std::unique_ptr<Worlds> join() const;
  void connect_world();
  void connect();
  void disconnect() noexcept;
  [[nodiscard]] int count(int requested) const;
  [[nodiscard]] int workers_on_host() const;

  const PolicyConnect policy_connect_;
  const int exceptions_;  // in flight when this was made
  const CommunicationOptions options_;
  const bool sharded_updates_;
  const Elastic elastic_;
  const std::shared_ptr<KeptPort> port_;
  Cluster cluster_;                       // of the world, where there are worlds
  const std::unique_ptr<Worlds> worlds_;  // null where the workers stay the same
  ReplicaThreads threads_;
  bool was_connected_ = false;
  std::shared_ptr<AnyCollective> peers_;      // null for a worker that is alone
  std::unique_ptr<HierarchicalGroup> group_;  // null where it is not connected
  std::deque<CollectiveReplica> replicas_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/strategies/detail/multi_worker.ipp"
#endif

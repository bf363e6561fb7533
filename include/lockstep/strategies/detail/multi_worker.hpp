// All of MultiWorkerMirroredStrategy but its policy.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/collectives/policies/hierarchical.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/elastic_world.hpp"
#include "lockstep/strategies/multi_worker_options.hpp"
#include "lockstep/strategies/replica.hpp"
#include "lockstep/strategies/replica_threads.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// See MultiWorkerMirroredStrategy, whose members these are.
class MultiWorker final : public AnyStrategy {
 public:
  using PolicyConnect = std::shared_ptr<AnyCollective> (*)(const Rendezvous&,
                                                           const CommunicationOptions&);

  /// In the cluster that the environment names.
  MultiWorker(PolicyConnect policy, const MultiWorkerMirroredOptions& options);
  MultiWorker(PolicyConnect policy, const Cluster& cluster,
              const MultiWorkerMirroredOptions& options);
  LOCKSTEP_INLINE_VIRTUAL ~MultiWorker() override;

  [[nodiscard]] const Cluster& cluster() const noexcept { return cluster_; }
  [[nodiscard]] int num_workers() const override { return cluster_.world_size(); }
  [[nodiscard]] int worker_index() const override { return cluster_.rank(); }
  [[nodiscard]] int local_replicas() const override { return threads_.size(); }
  LOCKSTEP_INLINE_VIRTUAL void run(FunctionRef<void(AnyReplica&)> f) override;
  [[nodiscard]] LOCKSTEP_INLINE_VIRTUAL std::string cluster_source() const override;

  [[nodiscard]] bool can_reconnect() const override { return true; }
  LOCKSTEP_INLINE_VIRTUAL void reconnect() override;
  [[nodiscard]] bool is_running() const override { return threads_.is_running(); }
  [[nodiscard]] const ElasticWorld* elastic_world() const override { return worlds_.get(); }
  [[nodiscard]] bool has_parameter_servers() const override { return false; }
  [[nodiscard]] bool sharded_updates() const override {
    return sharded_updates_ && num_workers() > 1;
  }
  int count_model() override { return ++models_; }
  /// The models that follow are those of a program that begins again.
  void forget_models() noexcept { models_ = 0; }

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
  int connections_ = 0;
  int models_ = 0;
  std::shared_ptr<AnyCollective> peers_;      // null for a worker that is alone
  std::unique_ptr<HierarchicalGroup> group_;  // null where it is not connected
  std::deque<CollectiveReplica> replicas_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/strategies/detail/multi_worker.ipp"
#endif

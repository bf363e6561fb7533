// Replicas on many machines.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "lockstep/cluster/cluster_from_environment.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/collectives/policies/auto.hpp"
#include "lockstep/collectives/policies/hierarchical.hpp"
#include "lockstep/collectives/policies/shared_memory.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/concepts.hpp"
#include "lockstep/strategies/elastic_world.hpp"
#include "lockstep/strategies/multi_worker_options.hpp"
#include "lockstep/strategies/own_loops.hpp"
#include "lockstep/strategies/replica_threads.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

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
  [[nodiscard]] bool sharded_updates() const override {
    return sharded_updates_ && num_workers() > 1;
  }
  [[nodiscard]] bool sharded_gradients() const override {
    return sharded_gradients_ && num_workers() > 1;
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
  const bool sharded_gradients_;
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
  std::deque<AnyReplica> replicas_;
};

}  // namespace detail

/// Trains on all workers of a cluster, each with one or several replicas. `Policy` is the
/// collective between workers: Auto, Ring<Tcp>, SharedMemory, or one of the user's. A process that
/// is alone opens no connection.
///
/// The destructor waits until all workers have ended, the chief last, so that an observer of the
/// chief sees the job done; when it runs because of an exception, the other workers are told to
/// stop (within lockstep::run, with the exception's message and exit code), and it does not wait
/// for them.
///
/// One thread calls run() and reconnect() at a time.
/// Use: `MultiWorkerMirroredStrategy<Ring<Tcp>>{}`.
template <CollectivePolicy Policy = Auto>
class MultiWorkerMirroredStrategy : public OwnLoops<MultiWorkerMirroredStrategy<Policy>> {
 public:
  using Replica = AnyReplica;

  /// Reads the environment (see cluster_from_environment) and connects to the other workers. Throws
  /// ConfigurationError when the cluster, this task or an option makes no sense, and
  /// CollectiveError when a worker is missing.
  explicit MultiWorkerMirroredStrategy(const MultiWorkerMirroredOptions& options = {});

  /// With a cluster that the program describes itself.
  explicit MultiWorkerMirroredStrategy(const Cluster& cluster,
                                       const MultiWorkerMirroredOptions& options = {});

  /// After a CollectiveError: drops what is left of the connections and meets the workers of the
  /// cluster once more, among them those that were started anew, as the constructor does; throws
  /// what that throws. In an elastic cluster, forms the next world: then num_workers() and
  /// worker_index() are those in it. The program then goes on as one that was just started: it
  /// compiles its models and distributes its datasets anew.
  void reconnect() {
    worker_.reconnect();
    worker_.forget_models();
  }

  /// Whether run() is under way.
  [[nodiscard]] bool is_running() const { return worker_.is_running(); }

  /// How many processes train together: a global batch is that many times the batch of one.
  [[nodiscard]] int num_workers() const noexcept { return worker_.num_workers(); }
  /// The number of this process among them, from 0.
  [[nodiscard]] int worker_index() const noexcept { return worker_.worker_index(); }
  /// What has named this worker's place: "TF_CONFIG", "torchrun (RANK=1, ...)"; empty when alone.
  [[nodiscard]] const std::string& cluster_source() const noexcept {
    return worker_.cluster().source;
  }
  /// Whether this process, number 0, is the one that writes files and prints: `if
  /// (strategy.is_chief()) std::printf(...)`.
  [[nodiscard]] bool is_chief() const noexcept { return worker_index() == 0; }
  /// The replicas of this process, each on a thread.
  [[nodiscard]] int local_replicas() const noexcept { return worker_.local_replicas(); }
  /// The replicas of all processes.
  [[nodiscard]] int num_replicas_in_sync() const noexcept { return worker_.num_replicas_in_sync(); }

  /// Null without ElasticOptions, and for a process that is alone.
  [[nodiscard]] const ElasticWorld* elastic_world() const noexcept {
    return worker_.elastic_world();
  }

  /// Whether its several workers share out the updates, as the option of this name says.
  [[nodiscard]] bool sharded_updates() const noexcept { return worker_.sharded_updates(); }
  /// The same of their gradients.
  [[nodiscard]] bool sharded_gradients() const noexcept { return worker_.sharded_gradients(); }

  /// See Strategy.
  template <class F>
  detail::PerReplicaOf<F, Replica> run(F&& f) {
    return detail::run_per_replica<Replica>(local_replicas(), f,
                                            [this](auto& each) { worker_.run(each); });
  }

  /// Without an adapter. (One of a derived class, whose run() may differ, is adapted.)
  friend std::shared_ptr<AnyStrategy> any_strategy(MultiWorkerMirroredStrategy& strategy) {
    return {std::shared_ptr<void>(), &strategy.worker_};
  }

 private:
  detail::MultiWorker worker_;
};

// (Constructors are defined outside the class, so that the library can hold the usual ones.)

template <CollectivePolicy Policy>
MultiWorkerMirroredStrategy<Policy>::MultiWorkerMirroredStrategy(
    const MultiWorkerMirroredOptions& options)
    : worker_(detail::connect_policy<Policy>, options) {}

template <CollectivePolicy Policy>
MultiWorkerMirroredStrategy<Policy>::MultiWorkerMirroredStrategy(
    const Cluster& cluster, const MultiWorkerMirroredOptions& options)
    : worker_(detail::connect_policy<Policy>, cluster, options) {}

LOCKSTEP_EXTERN(class MultiWorkerMirroredStrategy<Auto>);
LOCKSTEP_EXTERN(class MultiWorkerMirroredStrategy<Ring<Tcp>>);
LOCKSTEP_EXTERN(class MultiWorkerMirroredStrategy<SharedMemory>);

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/strategies/multi_worker_mirrored.ipp"
#endif

// Replicas on many machines.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/collectives/elastic/elastic_options.hpp"
#include "lockstep/collectives/elastic/membership.hpp"
#include "lockstep/collectives/kept_port.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/policies/auto.hpp"
#include "lockstep/collectives/policies/hierarchical.hpp"
#include "lockstep/collectives/policies/shared_memory.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/concepts.hpp"
#include "lockstep/strategies/elastic_world.hpp"
#include "lockstep/strategies/own_loops.hpp"
#include "lockstep/strategies/replica.hpp"
#include "lockstep/strategies/replica_threads.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

struct MultiWorkerMirroredOptions {
  /// Threads in each worker, the same number in all. 0: the cores that the launcher has given to
  /// this worker (cores_given_by_launcher), or else usable_cores() / workers on the machine.
  int replicas = 1;
  CommunicationOptions communication_options = {};
  Pinning pinning = Pinning::automatic;
  /// Each worker updates a share of the parameters, and has the optimizer's slots of these alone:
  /// with N workers, 1/N of the slots' memory and of the optimizer's time (ZeRO's first stage). The
  /// bits and the files are those of other runs (with global_clipnorm, to the last bit of the
  /// norm). Optimizers of whole variables (Lamb, LARS, Adafactor, Muon) have shares of whole
  /// variables. Moving averages of the weights (use_ema) stay whole. The chief has all slots while
  /// a state is saved, for which all workers must call save, and not the chief alone. A worker that
  /// is lost takes its slots along: with OnPeerLoss::rejoin or `elastic`, all go on from the last
  /// backup, and without one they end.
  bool sharded_updates = false;
  /// Training goes on with fewer workers when some are lost, and with more when some come: see
  /// ElasticOptions. A model's fit then survives losses as with OnPeerLoss::rejoin. The workers'
  /// addresses must be known, as from TF_CONFIG or --workers; in a world, workers connect on ports
  /// that the system chooses. Not with SharedMemory or Tls::certificates.
  std::optional<ElasticOptions> elastic = std::nullopt;
};

/// Trains on all workers of a cluster, each with one or several replicas. `Policy` is the
/// collective between workers: Auto, Ring<Tcp>, SharedMemory, or a user's own. A process that is
/// alone opens no connection.
///
/// The destructor waits until all workers have come to their end, the chief last, so that an
/// observer of the chief sees the job done; when it runs because of an exception, the other workers
/// are told to stop (within lockstep::run, with the exception's message and exit code), and it does
/// not wait for them.
///
/// One thread calls run() and reconnect() at a time.
template <CollectivePolicy Policy = Auto>
class MultiWorkerMirroredStrategy : public OwnLoops<MultiWorkerMirroredStrategy<Policy>> {
 public:
  using Replica = CollectiveReplica<Hierarchical<Policy>>;

  /// Reads the environment (see cluster_from_environment) and connects to the other workers. Throws
  /// ConfigurationError when the cluster, this task or an option makes no sense, and
  /// CollectiveError when a worker is missing.
  explicit MultiWorkerMirroredStrategy(const MultiWorkerMirroredOptions& options = {});

  /// With a cluster that the program knows otherwise.
  explicit MultiWorkerMirroredStrategy(const Cluster& cluster,
                                       const MultiWorkerMirroredOptions& options = {});
  MultiWorkerMirroredStrategy(const MultiWorkerMirroredStrategy&) = delete;
  MultiWorkerMirroredStrategy& operator=(const MultiWorkerMirroredStrategy&) = delete;

  ~MultiWorkerMirroredStrategy();

  /// After a CollectiveError: drops what is left of the connections and meets the workers of the
  /// cluster once more, among them those that were started anew, as the constructor does; throws
  /// what that throws. In an elastic cluster, forms the next world: then num_workers() and
  /// worker_index() are those in it.
  void reconnect();

  /// Whether run() is under way.
  [[nodiscard]] bool is_running() const { return threads_.is_running(); }

  [[nodiscard]] int num_workers() const noexcept { return cluster_.world_size(); }
  [[nodiscard]] int worker_index() const noexcept { return cluster_.rank(); }
  /// Who has named this worker's place: "TF_CONFIG", "torchrun (RANK=1, ...)"; empty when alone.
  [[nodiscard]] const std::string& cluster_source() const noexcept { return cluster_.source; }
  [[nodiscard]] bool is_chief() const noexcept { return worker_index() == 0; }
  [[nodiscard]] int local_replicas() const noexcept { return threads_.size(); }
  [[nodiscard]] int num_replicas_in_sync() const noexcept {
    return num_workers() * threads_.size();
  }

  /// Null without ElasticOptions, and for a process that is alone.
  [[nodiscard]] const ElasticWorld* elastic_world() const noexcept { return world_.get(); }

  /// What the option of this name says.
  [[nodiscard]] bool sharded_updates() const noexcept { return sharded_updates_; }

  /// See Strategy.
  template <class F>
  auto run(F&& f) {
    return detail::run_per_replica<Replica>(local_replicas(), f, [this](auto& each) {
      run_each([&](Replica& replica) { each(replica); });
    });
  }

 private:
  void run_each(FunctionRef<void(Replica&)> f);
  void tell_failure() noexcept;
  void check_elastic(const Cluster& cluster) const;
  [[nodiscard]] Cluster checked(const Cluster& cluster) const;
  [[nodiscard]] std::unique_ptr<Membership> join() const;
  void disconnect() noexcept;
  void connect_world();
  void connect();
  [[nodiscard]] int count(int requested) const;
  [[nodiscard]] int workers_on_host() const;

  const int exceptions_ = std::uncaught_exceptions();
  const CommunicationOptions options_;
  const bool sharded_updates_;
  const std::optional<ElasticOptions> elastic_;
  std::shared_ptr<KeptPort> port_ = std::make_shared<KeptPort>();
  Cluster cluster_;  // of the world, where there are worlds
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<ElasticWorld> world_;
  ReplicaThreads threads_;
  bool was_connected_ = false;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<HierarchicalGroup<Policy>> group_;
  std::vector<Replica> replicas_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

// Always: of a user's own policy there is no instance in lockstep::compiled.
#include "lockstep/strategies/multi_worker_mirrored.ipp"

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_INSTANCE(class MultiWorkerMirroredStrategy<Auto>);
LOCKSTEP_INSTANCE(class MultiWorkerMirroredStrategy<Ring<Tcp>>);
LOCKSTEP_INSTANCE(class MultiWorkerMirroredStrategy<SharedMemory>);
LOCKSTEP_INSTANCE(std::unique_ptr<AnyStrategy> any_strategy(MultiWorkerMirroredStrategy<Auto>&));
LOCKSTEP_INSTANCE(
    std::unique_ptr<AnyStrategy> any_strategy(MultiWorkerMirroredStrategy<Ring<Tcp>>&));
LOCKSTEP_INSTANCE(
    std::unique_ptr<AnyStrategy> any_strategy(MultiWorkerMirroredStrategy<SharedMemory>&));
}  // namespace lockstep::inline LOCKSTEP_ABI

// Replicas on many machines.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/cluster/tf_config.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/collectives/kept_port.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/policies/auto.hpp"
#include "lockstep/collectives/policies/hierarchical.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/last_words.hpp"
#include "lockstep/strategies/concepts.hpp"
#include "lockstep/strategies/replica.hpp"
#include "lockstep/strategies/replica_threads.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

struct MultiWorkerMirroredOptions {
  int replicas = 1;  ///< threads in each worker, the same number in all; 0: cores / workers on the machine
  CommunicationOptions communication_options = {};
};

/// Trains on all workers of a cluster, each with one or several replicas. `Policy` is the collective between workers: Auto, Ring<Tcp>,
/// SharedMemory, or a user's own. A process that is alone opens no connection.
///
/// The destructor waits until all workers have come to their end, the chief last, so that an
/// observer of the chief sees the job done; when it runs because of an exception, the other workers
/// are told to stop (within lockstep::run, with the exception's message and exit code), and it does
/// not wait for them.
///
/// One thread calls run() and reconnect() at a time.
template <CollectivePolicy Policy = Auto>
class MultiWorkerMirroredStrategy {
 public:
  using Replica = CollectiveReplica<Hierarchical<Policy>>;

  /// Reads TF_CONFIG and connects to the other workers. Throws ConfigurationError when the cluster, this task or an option
  /// makes no sense, and CollectiveError when a worker is missing.
  explicit MultiWorkerMirroredStrategy(const MultiWorkerMirroredOptions& options = {})
      : MultiWorkerMirroredStrategy(cluster_from_environment(), options) {}

  /// With a cluster that the program knows otherwise.
  explicit MultiWorkerMirroredStrategy(const Cluster& cluster, const MultiWorkerMirroredOptions& options = {})
      : cluster_(checked(cluster)),
        options_(options.communication_options),
        threads_(ReplicaThreads::count(options.replicas, workers_on_host()),
                 ReplicaThreads::count(options.replicas, workers_on_host()) * workers_on_host()) {
    options_.validate();
    connect();
  }
  MultiWorkerMirroredStrategy(const MultiWorkerMirroredStrategy&) = delete;
  MultiWorkerMirroredStrategy& operator=(const MultiWorkerMirroredStrategy&) = delete;

  ~MultiWorkerMirroredStrategy() {
    if (policy_ == nullptr) return;
    if (std::uncaught_exceptions() > exceptions_) {
      tell_failure();
    } else if constexpr (requires { policy_->close(); }) {
      try {
        policy_->close();
      } catch (...) {  // the work is done
      }
    }
  }

  /// After a CollectiveError: drops what is left of the connections and meets the workers of the cluster once more, among them those
  /// that were started anew, as the constructor does; throws what that throws.
  void reconnect() {
    if (threads_.is_running())
      throw Error("MultiWorkerMirroredStrategy: reconnect() was called while the replicas are at work");
    replicas_.clear();
    group_.reset();
    policy_.reset();
    connect();
  }

  /// Whether run() is under way.
  [[nodiscard]] bool is_running() const { return threads_.is_running(); }

  [[nodiscard]] int num_workers() const noexcept { return cluster_.world_size(); }
  [[nodiscard]] int worker_index() const noexcept { return cluster_.rank(); }
  [[nodiscard]] bool is_chief() const noexcept { return worker_index() == 0; }
  [[nodiscard]] int local_replicas() const noexcept { return threads_.size(); }
  [[nodiscard]] int num_replicas_in_sync() const noexcept { return num_workers() * threads_.size(); }

  template <class F>
  void run(F&& f) {
    if (group_ == nullptr)
      throw Error("MultiWorkerMirroredStrategy: the workers are not connected: reconnect() failed");
    const auto call = [&](int i) { f(replicas_[static_cast<std::size_t>(i)]); };
    const auto abort = [&](int i, std::string_view what, ExitCode code) { group_->member(i).abort(what, code); };
    threads_.run(call, abort, [&] {
      group_->drain();  // an exception may leave a reduction behind that uses f's memory
      group_->reset();
    });
  }

 private:
  // With the exception's message if possible, which lockstep::run will know.
  void tell_failure() noexcept {
    const std::shared_ptr<Policy> policy(std::move(policy_));
    try {
      if (detail::LastWords::leave(
              [policy](std::string_view reason, ExitCode code) { detail::abort(*policy, reason, code); }))
        return;
    } catch (...) {  // out of memory: without the message
    }
    policy->abort("ended because of an exception");
  }

  static const Cluster& checked(const Cluster& cluster) {
    cluster.validate();
    if (cluster.is_evaluator())
      throw ConfigurationError(
          "this process is the evaluator of the cluster, which does not train: ask "
          "cluster_from_environment().is_evaluator(), and give the evaluator a OneDeviceStrategy and a "
          "SidecarEvaluator; "
          "or leave the evaluator out of TF_CONFIG");
    return cluster;
  }

  void connect() {
    detail::LastWords::say_now();  // an earlier strategy's: its port is needed
    const int replicas = threads_.size();
    if (num_workers() > 1) {
      Rendezvous rendezvous{.rank = worker_index(), .addresses = cluster_.addresses()};
      rendezvous.properties = {
          {"lockstep version",
           std::to_string(version_major) + "." + std::to_string(version_minor) + "." + std::to_string(version_patch)},
          {"instruction set of the build", instruction_set_of_build()},
          {"replicas per worker", std::to_string(replicas)}};
      rendezvous.ranks_on_host = workers_on_host() * replicas;
      rendezvous.port = port_;
      rendezvous.was_connected = was_connected_;
      policy_.reset(new Policy(Policy::connect(rendezvous, options_)));
      was_connected_ = true;
    }
    group_ =
        std::make_unique<HierarchicalGroup<Policy>>(replicas, policy_.get(), options_, workers_on_host() * replicas);
    replicas_.reserve(static_cast<std::size_t>(replicas));
    for (int i = 0; i < replicas; ++i) replicas_.emplace_back(group_->member(i), i, replicas, &threads_);
    detail::note_met();
  }

  static const char* instruction_set_of_build() noexcept {
#define LOCKSTEP_TEXT_OF(name) #name
#define LOCKSTEP_TEXT(name) LOCKSTEP_TEXT_OF(name)
    return LOCKSTEP_TEXT(LOCKSTEP_ABI);
#undef LOCKSTEP_TEXT
#undef LOCKSTEP_TEXT_OF
  }

  // How many workers share this worker's machine, as far as addresses tell.
  [[nodiscard]] int workers_on_host() const {
    if (num_workers() == 1) return 1;
    const auto addresses = cluster_.addresses();
    const std::string host = parse_address(addresses[static_cast<std::size_t>(worker_index())]).host;
    int workers = 0;
    for (const std::string& address : addresses) workers += parse_address(address).host == host;
    return workers;
  }

  const int exceptions_ = std::uncaught_exceptions();
  const Cluster cluster_;
  const CommunicationOptions options_;
  ReplicaThreads threads_;
  std::shared_ptr<KeptPort> port_ = std::make_shared<KeptPort>();
  bool was_connected_ = false;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<HierarchicalGroup<Policy>> group_;
  std::vector<Replica> replicas_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

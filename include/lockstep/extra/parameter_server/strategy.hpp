// Workers that train on their own, and servers that hold what they train.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/cluster/cluster_from_environment.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/collectives/policies/single.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/parameter_server/options.hpp"
#include "lockstep/extra/parameter_server/parameter_servers.hpp"
#include "lockstep/extra/parameter_server/served_fit.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/concepts.hpp"
#include "lockstep/strategies/replica_threads.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Trains with the parameter servers of a cluster: the tasks of TF_CONFIG's job `ps`. Each server
/// holds a range of the parameters with the optimizer's slots; each worker, one replica on one
/// thread, takes its part of every global batch, sends gradients, and gets parameters, without a
/// word to other workers. With `max_staleness = 0` they train in rounds, to the bits of
/// MultiWorkerMirroredStrategy.
///
/// The program is the same in all processes. On a server, fit serves until all workers have ended
/// (their strategies are destroyed), and then throws Served, with which lockstep::run ends the
/// program as done; what follows fit is for the workers. A strategy serves one model.
///
///     ls::ParameterServerStrategy strategy;
///     auto train = ls::from_tensor_slices(x, y).shuffle(60'000).repeat().batch(
///         64 * strategy.num_workers());
///     auto model = ls::compile<Cnn>(strategy, loss, ls::Adam{});
///     model.fit(train, {.epochs = 3, .steps_per_epoch = 70});
///
/// fit returns on all workers when those that live have made their steps, with the same variables.
/// evaluate, predict and validation are each worker's own, over all of the data. A worker that is
/// lost does not stop the others; when it is started again, its fit goes on where it was. A server
/// that is lost is waited for, and goes on from its backup (ParameterServerOptions::backup_dir).
///
/// Without a cluster, the process trains alone.
///
/// One thread calls run() at a time.
/// Include <lockstep/extra/parameter_server.hpp>.
/// Use: `ParameterServerStrategy{}`.
class ParameterServerStrategy {
 public:
  using Replica = AnyReplica;

  /// Reads the environment (see cluster_from_environment). Throws ConfigurationError when the
  /// cluster has no parameter server, or this task or an option makes no sense.
  explicit ParameterServerStrategy(const ParameterServerOptions& options = {});
  /// With a cluster that the program knows otherwise.
  explicit ParameterServerStrategy(const Cluster& cluster,
                                   const ParameterServerOptions& options = {});
  ParameterServerStrategy(const ParameterServerStrategy&) = delete;
  ParameterServerStrategy& operator=(const ParameterServerStrategy&) = delete;
  /// A worker tells the servers that it has ended; not because of an exception, after which it may
  /// be started again.
  ~ParameterServerStrategy();

  /// Whether this process is a parameter server.
  [[nodiscard]] bool is_server() const noexcept {
    return servers_ != nullptr && servers_->is_server();
  }

  [[nodiscard]] int num_workers() const noexcept { return workers_; }
  /// -1 for a server.
  [[nodiscard]] int worker_index() const noexcept { return rank_; }
  [[nodiscard]] const std::string& cluster_source() const noexcept { return source_; }
  [[nodiscard]] bool is_chief() const noexcept { return rank_ == 0; }
  [[nodiscard]] int local_replicas() const noexcept { return 1; }
  [[nodiscard]] int num_replicas_in_sync() const noexcept { return workers_; }

  /// False for a process that is alone.
  [[nodiscard]] bool has_parameter_servers() const noexcept { return servers_ != nullptr; }
  /// For Model: what trains its variables in place of this process.
  template <class T>
  [[nodiscard]] std::unique_ptr<detail::RemoteVariables<T>> remote_variables(
      detail::Trainer<T>& trainer) {
    if (servers_ == nullptr) return nullptr;
    return std::make_unique<detail::ServedVariables<T>>(trainer, *servers_);
  }

  /// See Strategy; f runs on this thread.
  template <class F>
  void run(F&& f) {
    threads_.run([&](int) { f(*replica_); }, [](int, std::string_view, ExitCode) {});
  }

 private:
  const int exceptions_ = std::uncaught_exceptions();
  const int workers_;
  const int rank_;
  const std::string source_;
  std::unique_ptr<detail::ParameterServers> servers_;
  ReplicaThreads threads_{1};
  std::optional<Replica> replica_;
};

namespace detail {

/// A cluster that can train with parameter servers, or a process that is alone.
[[nodiscard]] inline const Cluster& checked_for_servers(const Cluster& cluster) {
  if (cluster.meeting)
    throw ConfigurationError(
        concat({"ParameterServerStrategy: ",
                cluster.source.empty() ? "the cluster" : cluster.source.c_str(),
                " names no parameter servers: give each process a TF_CONFIG with a job 'ps'"}));
  cluster.validate();
  if (cluster.is_alone()) return cluster;
  if (cluster.is_evaluator())
    throw ConfigurationError(
        "ParameterServerStrategy: this process is the evaluator of the cluster, which does not "
        "train: ask cluster_from_environment().is_evaluator(), and give the evaluator a "
        "OneDeviceStrategy and a SidecarEvaluator");
  if (cluster.spec.ps.empty())
    throw ConfigurationError(
        "ParameterServerStrategy: the cluster has no job 'ps': list the parameter servers in "
        "TF_CONFIG, or train with MultiWorkerMirroredStrategy, which needs none");
  if (cluster.world_size() == 0)
    throw ConfigurationError(
        "ParameterServerStrategy: the cluster has parameter servers, but no chief and no worker "
        "to train");
  return cluster;
}

}  // namespace detail

inline ParameterServerStrategy::ParameterServerStrategy(const ParameterServerOptions& options)
    : ParameterServerStrategy(cluster_from_environment(), options) {}

inline ParameterServerStrategy::ParameterServerStrategy(const Cluster& cluster,
                                                        const ParameterServerOptions& options)
    : workers_(detail::checked_for_servers(cluster).world_size()),
      rank_(cluster.rank()),
      source_(cluster.source) {
  options.validate();
  detail::set_log_place(detail::log_place_of(cluster));
  const bool is_server = cluster.task.type == TaskType::ps;
  if (!cluster.is_alone())
    servers_ = std::make_unique<detail::ParameterServers>(
        detail::ParameterServers::Place{.rank = rank_,
                                        .workers = workers_,
                                        .server = is_server ? cluster.task.index : -1,
                                        .servers = cluster.spec.ps,
                                        .addresses = cluster.addresses()},
        options);
  replica_.emplace(any_collective(Single{}), 0, 1, &threads_);
}

inline ParameterServerStrategy::~ParameterServerStrategy() {
  if (servers_ != nullptr && !is_server() && std::uncaught_exceptions() == exceptions_)
    servers_->client().say_goodbye();
}

}}  // namespace lockstep

#pragma once

#include "lockstep/cluster/cluster_from_environment.hpp"
#include "lockstep/cluster/log_place.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/parameter_server/connected_servers.hpp"
#include "lockstep/strategies/parameter_server.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// A cluster that can train with parameter servers, or a process that is alone.
[[nodiscard]] LOCKSTEP_INLINE const Cluster& checked_for_servers(const Cluster& cluster) {
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

LOCKSTEP_INLINE ParameterServerStrategy::ParameterServerStrategy(
    const ParameterServerOptions& options)
    : ParameterServerStrategy(cluster_from_environment(), options) {}

LOCKSTEP_INLINE ParameterServerStrategy::ParameterServerStrategy(
    const Cluster& cluster, const ParameterServerOptions& options)
    : workers_(detail::checked_for_servers(cluster).world_size()),
      rank_(cluster.rank()),
      source_(cluster.source),
      replica_(&threads_, nullptr) {
  options.validate();
  detail::set_log_place(detail::log_place_of(cluster));
  if (cluster.is_alone()) return;
  const bool is_server = cluster.task.type == TaskType::ps;
  servers_ = std::make_unique<detail::ConnectedServers>(
      ParameterServers::Place{.rank = rank_,
                              .workers = workers_,
                              .server = is_server ? cluster.task.index : -1,
                              .servers = cluster.spec.ps,
                              .in_rounds = options.in_rounds()},
      options);
  replica_ = Replica(&threads_, servers_.get());
}

LOCKSTEP_INLINE ParameterServerStrategy::~ParameterServerStrategy() {
  if (servers_ != nullptr && !is_server() && std::uncaught_exceptions() == exceptions_)
    servers_->say_goodbye();
}

}  // namespace lockstep::inline LOCKSTEP_ABI

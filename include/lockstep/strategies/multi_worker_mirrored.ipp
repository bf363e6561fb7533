#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/cluster/cluster_from_environment.hpp"
#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/world.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/exit_report.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/descriptor.hpp"
#include "lockstep/strategies/elastic_world.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "lockstep/strategies/multi_worker_options.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE const char* instruction_set_of_build() noexcept {
#define LOCKSTEP_TEXT_OF(name) #name
#define LOCKSTEP_TEXT(name) LOCKSTEP_TEXT_OF(name)
  return LOCKSTEP_TEXT(LOCKSTEP_ABI);
#undef LOCKSTEP_TEXT
#undef LOCKSTEP_TEXT_OF
}

LOCKSTEP_INLINE MultiWorker::MultiWorker(PolicyConnect policy,
                                         const MultiWorkerMirroredOptions& options)
    : MultiWorker(policy, cluster_from_environment(), options) {}

LOCKSTEP_INLINE MultiWorker::MultiWorker(PolicyConnect policy, const Cluster& cluster,
                                         const MultiWorkerMirroredOptions& options)
    : policy_connect_(policy),
      exceptions_(std::uncaught_exceptions()),
      options_(options.communication_options),
      sharded_updates_(options.sharded_updates || options.sharded_gradients),
      sharded_gradients_(options.sharded_gradients),
      elastic_(options.elastic),
      port_(std::make_shared<KeptPort>()),
      cluster_(checked(cluster)),
      worlds_(join()),
      threads_(count(options.replicas), count(options.replicas) * workers_on_host(),
               options.pinning) {
  worlds_ == nullptr ? connect() : connect_world();
}

LOCKSTEP_INLINE MultiWorker::~MultiWorker() {
  if (peers_ == nullptr) return;
  if (std::uncaught_exceptions() > exceptions_) {
    tell_failure();
  } else {
    try {
      peers_->close();
    } catch (...) {  // the work is done
    }
  }
}

LOCKSTEP_INLINE void MultiWorker::reconnect() {
  if (threads_.is_running())
    throw Error(
        "MultiWorkerMirroredStrategy: reconnect() was called while the replicas are at work");
  disconnect();
  ExitReport::say_now();
  if (worlds_ != nullptr) return connect_world();
  cluster_ = met(std::move(cluster_), port_, options_);
  connect();
}

LOCKSTEP_INLINE std::unique_ptr<Worlds> MultiWorker::join() const {
  if (elastic_.code() == nullptr || cluster_.world_size() == 1) return nullptr;
  auto worlds =
      elastic_.code()->join(cluster_, options_,
                            concat({"lockstep ", version_major, ".", version_minor, ".",
                                    version_patch, ", built for ", instruction_set_of_build()}));
  note_world(0, "");  // a launcher shall know before the first world that the job is elastic
  return worlds;
}

/// A worker may be lost while the members of a new world connect: they then form another. If no
/// world ever works, something blocks their ports.
LOCKSTEP_INLINE void MultiWorker::connect_world() {
  using Clock = std::chrono::steady_clock;
  for (auto deadline = Clock::time_point::max();;) {
    worlds_->form(port_);
    cluster_.spec = {};
    cluster_.spec.worker = worlds_->addresses();
    const World& world = worlds_->world();
    cluster_.task = {TaskType::worker, world.rank_of(worlds_->slot())};
    try {
      connect();
      worlds_->works();
      note_world(world.epoch, world.members());
      log_line(concat({worlds_->description(), ", this is worker ", worlds_->slot(),
                       world.ranks_are_slots() ? "" : ": ",
                       world.ranks_are_slots() ? "" : world.ranks_text()}));
      return;
    } catch (const CollectiveError& error) {
      disconnect();
      if (error.exit_code() != ExitCode::lost_peer) throw;
      if (deadline == Clock::time_point::max()) deadline = Clock::now() + options_.startup_timeout;
      CollectiveFailure failure = error.failure();
      if (Clock::now() >= deadline) {
        failure.reason += no_world_comes_to_work(worlds_->addresses());
        throw CollectiveError(std::move(failure));
      }
      log_line(concat({worlds_->description(),
                       " does not come to work: ", CollectiveError(std::move(failure)).what()}));
    }
  }
}

LOCKSTEP_INLINE std::string MultiWorker::cluster_source() const { return cluster_.source; }

LOCKSTEP_INLINE void MultiWorker::run(FunctionRef<void(AnyReplica&)> f) {
  if (group_ == nullptr)
    throw Error("MultiWorkerMirroredStrategy: the workers are not connected: reconnect() failed");
  const auto call = [&](int i) {
    f(replicas_[static_cast<std::size_t>(i)]);
    group_->depart(i);
  };
  const auto abort = [&](int i, std::string_view what, ExitCode code) {
    replicas_[static_cast<std::size_t>(i)].collective().abort(what, code);
  };
  const auto clean_up = [&] {
    group_->drain();  // an exception may leave a reduction behind that uses a replica's memory
    group_->reset();
  };
  const auto run_all = [&] {
    threads_.run(call, abort, clean_up);
    group_->assemble();
  };
  if (worlds_ == nullptr || worlds_->world().ranks_are_slots()) return run_all();
  const World world = worlds_->world();
  try {
    run_all();
  } catch (const CollectiveError&) {
    throw;
  } catch (const Error&) {  // its message may name ranks
    log_line(concat({"in world ", world.epoch, ", ", world.ranks_text()}));
    throw;
  }
}

// With the exception's message if possible, which lockstep::run will know.
LOCKSTEP_INLINE void MultiWorker::tell_failure() noexcept {
  try {
    if (ExitReport::leave([peers = peers_](std::string_view reason, ExitCode code) {
          peers->abort(reason, code);
        }))
      return;
  } catch (...) {  // out of memory: without the message
  }
  peers_->abort("ended because of an exception");
}

LOCKSTEP_INLINE Cluster MultiWorker::checked(const Cluster& cluster) const {
  options_.validate();
  cluster.validate();
  set_log_place(log_place_of(cluster));
  if (elastic_.code() != nullptr) elastic_.code()->check(cluster);
  if (cluster.is_evaluator())
    throw ConfigurationError(
        "this process is the evaluator of the cluster, which does not train: ask "
        "cluster_from_environment().is_evaluator(), and give the evaluator a OneDeviceStrategy and "
        "a SidecarEvaluator; or leave the evaluator out of TF_CONFIG");
  if (cluster.is_parameter_server())
    throw ConfigurationError(
        "this process is a parameter server of the cluster (TF_CONFIG's job 'ps'), and in a "
        "MultiWorkerMirroredStrategy all workers train in lockstep without any: use a "
        "ParameterServerStrategy (lockstep/extra/parameter_server.hpp) in all processes, or start "
        "none for the job");
  ExitReport::say_now();  // an earlier strategy's: its port is needed
  return met(cluster, port_, options_);
}

LOCKSTEP_INLINE void MultiWorker::connect() {
  const int replicas = threads_.size();
  int worker = -1;  // its number in messages, where that is not its rank
  if (cluster_.world_size() > 1) {
    Rendezvous rendezvous{.rank = cluster_.rank(), .addresses = cluster_.addresses()};
    rendezvous.properties = {
        {"lockstep version", std::to_string(version_major) + "." + std::to_string(version_minor) +
                                 "." + std::to_string(version_patch)},
        {"instruction set of the build", instruction_set_of_build()},
        {"replicas per worker", std::to_string(replicas)}};
    CommunicationOptions options = options_;
    if (worlds_ != nullptr) {
      rendezvous.properties.emplace_back("world", worlds_->world().text());
      rendezvous.workers = worlds_->world().slots;
      // All are there: one that does not connect is lost.
      options.startup_timeout = std::clamp<std::chrono::milliseconds>(
          worlds_->wait(), std::chrono::seconds(5), std::chrono::seconds(60));
    }
    rendezvous.ranks_on_host = workers_on_host() * replicas;
    rendezvous.port = port_;
    rendezvous.was_connected = was_connected_;
    peers_ = policy_connect_(rendezvous, options);
    was_connected_ = true;
    if (!rendezvous.workers.empty())
      worker = rendezvous.workers[static_cast<std::size_t>(rendezvous.rank)];
  }
  group_ = std::make_unique<HierarchicalGroup>(replicas, peers_.get(), options_,
                                               workers_on_host() * replicas, worker);
  ++connections_;
  for (int i = 0; i < replicas; ++i)
    replicas_.emplace_back(std::make_shared<Hierarchical>(*group_, i), i, replicas, &threads_,
                           connections_);
  note_met();
}

LOCKSTEP_INLINE void MultiWorker::disconnect() noexcept {
  replicas_.clear();
  group_.reset();
  peers_.reset();
}

LOCKSTEP_INLINE int MultiWorker::count(int requested) const {
  const int given = requested == 0 ? cores_given_by_launcher() : 0;
  return given > 0 ? given : ReplicaThreads::count(requested, workers_on_host());
}

// How many workers share this worker's cores, judging by addresses and the launcher.
LOCKSTEP_INLINE int MultiWorker::workers_on_host() const {
  if (cluster_.world_size() == 1 || cores_given_by_launcher() > 0) return 1;
  const auto addresses = cluster_.addresses();
  const std::string host = parse_address(addresses[static_cast<std::size_t>(cluster_.rank())]).host;
  int workers = 0;
  for (const std::string& address : addresses) workers += parse_address(address).host == host;
  return workers;
}

}}}  // namespace lockstep::detail

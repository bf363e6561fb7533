#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/cluster/cluster_from_environment.hpp"
#include "lockstep/cluster/log_place.hpp"
#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/elastic/world.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/collectives/kept_port.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/last_words.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/strategies/detail/multi_worker.hpp"
#include "lockstep/strategies/elastic_world.hpp"
#include "lockstep/strategies/multi_worker_options.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE const char* instruction_set_of_build() noexcept {
#define LOCKSTEP_TEXT_OF(name) #name
#define LOCKSTEP_TEXT(name) LOCKSTEP_TEXT_OF(name)
  return LOCKSTEP_TEXT(LOCKSTEP_ABI);
#undef LOCKSTEP_TEXT
#undef LOCKSTEP_TEXT_OF
}

class MultiWorker::Impl {
 public:
  Impl(std::unique_ptr<WorkerConnections> connections, const Cluster& cluster,
       const MultiWorkerMirroredOptions& options);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();

  void reconnect();
  [[nodiscard]] const Cluster& cluster() const noexcept { return cluster_; }
  [[nodiscard]] const ReplicaThreads& threads() const noexcept { return threads_; }
  [[nodiscard]] const ElasticWorld* world() const noexcept { return worlds_.get(); }
  [[nodiscard]] bool sharded_updates() const noexcept { return sharded_updates_; }

  void run(FunctionRef<void(void*)> f);

 private:
  void tell_failure() noexcept;
  [[nodiscard]] Cluster checked(const Cluster& cluster) const;
  [[nodiscard]] std::unique_ptr<Worlds> join() const;
  void connect_world();
  void connect();
  [[nodiscard]] int count(int requested) const;
  [[nodiscard]] int workers_on_host() const;

  const int exceptions_;  // in flight when this was made
  const CommunicationOptions options_;
  const bool sharded_updates_;
  const Elastic elastic_;
  const std::shared_ptr<KeptPort> port_;
  Cluster cluster_;                       // of the world, where there are worlds
  const std::unique_ptr<Worlds> worlds_;  // null where the workers stay the same
  ReplicaThreads threads_;
  bool was_connected_ = false;
  const std::unique_ptr<WorkerConnections> connections_;  // last: they use the others
};

LOCKSTEP_INLINE MultiWorker::Impl::Impl(std::unique_ptr<WorkerConnections> connections,
                                        const Cluster& cluster,
                                        const MultiWorkerMirroredOptions& options)
    : exceptions_(std::uncaught_exceptions()),
      options_(options.communication_options),
      sharded_updates_(options.sharded_updates),
      elastic_(options.elastic),
      port_(std::make_shared<KeptPort>()),
      cluster_(checked(cluster)),
      worlds_(join()),
      threads_(count(options.replicas), count(options.replicas) * workers_on_host(),
               options.pinning),
      connections_(std::move(connections)) {
  worlds_ == nullptr ? connect() : connect_world();
}

LOCKSTEP_INLINE MultiWorker::Impl::~Impl() {
  if (!connections_->has_peers()) return;
  if (std::uncaught_exceptions() > exceptions_) {
    tell_failure();
  } else {
    try {
      connections_->close();
    } catch (...) {  // the work is done
    }
  }
}

LOCKSTEP_INLINE void MultiWorker::Impl::reconnect() {
  if (threads_.is_running())
    throw Error(
        "MultiWorkerMirroredStrategy: reconnect() was called while the replicas are at work");
  connections_->disconnect();
  LastWords::say_now();
  if (worlds_ != nullptr) return connect_world();
  cluster_ = met(std::move(cluster_), port_, options_);
  connect();
}

LOCKSTEP_INLINE std::unique_ptr<Worlds> MultiWorker::Impl::join() const {
  if (elastic_.code() == nullptr || cluster_.world_size() == 1) return nullptr;
  auto worlds =
      elastic_.code()->join(cluster_, options_,
                            concat({"lockstep ", version_major, ".", version_minor, ".",
                                    version_patch, ", built for ", instruction_set_of_build()}));
  note_world(0, "");  // a launcher shall know before the first world that the job is elastic
  return worlds;
}

/// A worker may be lost while the members of a new world connect: then they form another one. But
/// where none comes to work, something is between their ports.
LOCKSTEP_INLINE void MultiWorker::Impl::connect_world() {
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
      connections_->disconnect();
      if (error.exit_code() != ExitCode::lost_peer) throw;
      if (deadline == Clock::time_point::max()) deadline = Clock::now() + options_.startup_timeout;
      CollectiveFailure failure = error.failure();
      if (Clock::now() >= deadline) {
        failure.reason += "; no world comes to work. The workers of the last one listen at";
        for (const std::string& address : worlds_->addresses()) failure.reason += " " + address;
        failure.reason += ", ports that the system chooses: they must reach each other there";
        throw CollectiveError(std::move(failure));
      }
      log_line(concat({worlds_->description(),
                       " does not come to work: ", CollectiveError(std::move(failure)).what()}));
    }
  }
}

LOCKSTEP_INLINE void MultiWorker::Impl::run(FunctionRef<void(void*)> f) {
  if (!connections_->has_replicas())
    throw Error("MultiWorkerMirroredStrategy: the workers are not connected: reconnect() failed");
  const auto call = [&](int i) {
    f(connections_->replica(i));
    connections_->depart(i);
  };
  const auto abort = [&](int i, std::string_view what, ExitCode code) {
    connections_->abort(i, what, code);
  };
  const auto clean_up = [&] { connections_->reset(); };
  const auto run_all = [&] {
    threads_.run(call, abort, clean_up);
    connections_->assemble();
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
LOCKSTEP_INLINE void MultiWorker::Impl::tell_failure() noexcept {
  try {
    if (LastWords::leave(connections_->last_words())) return;
  } catch (...) {  // out of memory: without the message
  }
  connections_->abort_all("ended because of an exception");
}

LOCKSTEP_INLINE Cluster MultiWorker::Impl::checked(const Cluster& cluster) const {
  options_.validate();
  cluster.validate();
  set_log_place(log_place_of(cluster));
  if (elastic_.code() != nullptr) elastic_.code()->check(cluster);
  if (cluster.is_evaluator())
    throw ConfigurationError(
        "this process is the evaluator of the cluster, which does not train: ask "
        "cluster_from_environment().is_evaluator(), and give the evaluator a OneDeviceStrategy and "
        "a "
        "SidecarEvaluator; "
        "or leave the evaluator out of TF_CONFIG");
  if (cluster.is_parameter_server())
    throw ConfigurationError(
        "this process is a parameter server of the cluster (TF_CONFIG's job 'ps'), and in a "
        "MultiWorkerMirroredStrategy all workers train in lockstep without any: use a "
        "ParameterServerStrategy in all processes, or start none for the job");
  LastWords::say_now();  // an earlier strategy's: its port is needed
  return met(cluster, port_, options_);
}

LOCKSTEP_INLINE void MultiWorker::Impl::connect() {
  const int replicas = threads_.size();
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
      // All are there: one that does not come is lost.
      options.startup_timeout = std::clamp<std::chrono::milliseconds>(
          worlds_->wait(), std::chrono::seconds(5), std::chrono::seconds(60));
    }
    rendezvous.ranks_on_host = workers_on_host() * replicas;
    rendezvous.port = port_;
    rendezvous.was_connected = was_connected_;
    connections_->connect(rendezvous, options);
    was_connected_ = true;
  }
  connections_->make_replicas(threads_, workers_on_host() * replicas, options_);
  note_met();
}

LOCKSTEP_INLINE int MultiWorker::Impl::count(int requested) const {
  const int given = requested == 0 ? cores_given_by_launcher() : 0;
  return given > 0 ? given : ReplicaThreads::count(requested, workers_on_host());
}

// How many workers share this worker's cores, as far as addresses and the launcher tell.
LOCKSTEP_INLINE int MultiWorker::Impl::workers_on_host() const {
  if (cluster_.world_size() == 1 || cores_given_by_launcher() > 0) return 1;
  const auto addresses = cluster_.addresses();
  const std::string host = parse_address(addresses[static_cast<std::size_t>(cluster_.rank())]).host;
  int workers = 0;
  for (const std::string& address : addresses) workers += parse_address(address).host == host;
  return workers;
}

LOCKSTEP_INLINE MultiWorker::MultiWorker(std::unique_ptr<WorkerConnections> connections,
                                         const Cluster& cluster,
                                         const MultiWorkerMirroredOptions& options)
    : impl_(std::make_unique<Impl>(std::move(connections), cluster, options)) {}
LOCKSTEP_INLINE MultiWorker::MultiWorker(std::unique_ptr<WorkerConnections> connections,
                                         const MultiWorkerMirroredOptions& options)
    : MultiWorker(std::move(connections), cluster_from_environment(), options) {}
LOCKSTEP_INLINE MultiWorker::~MultiWorker() = default;

LOCKSTEP_INLINE void MultiWorker::reconnect() { impl_->reconnect(); }
LOCKSTEP_INLINE const Cluster& MultiWorker::cluster() const noexcept { return impl_->cluster(); }
LOCKSTEP_INLINE const ReplicaThreads& MultiWorker::threads() const noexcept {
  return impl_->threads();
}
LOCKSTEP_INLINE const ElasticWorld* MultiWorker::world() const noexcept { return impl_->world(); }
LOCKSTEP_INLINE bool MultiWorker::sharded_updates() const noexcept {
  return impl_->sharded_updates();
}
LOCKSTEP_INLINE void MultiWorker::run(FunctionRef<void(void*)> f) { impl_->run(f); }

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

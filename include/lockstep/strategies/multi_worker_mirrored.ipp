#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/cluster/cluster_from_environment.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/last_words.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

inline const char* instruction_set_of_build() noexcept {
#define LOCKSTEP_TEXT_OF(name) #name
#define LOCKSTEP_TEXT(name) LOCKSTEP_TEXT_OF(name)
  return LOCKSTEP_TEXT(LOCKSTEP_ABI);
#undef LOCKSTEP_TEXT
#undef LOCKSTEP_TEXT_OF
}

class MembersWorld final : public ElasticWorld {
 public:
  explicit MembersWorld(const Membership& membership) : membership_(membership) {}
  [[nodiscard]] bool has_newcomer() const noexcept override { return membership_.has_newcomer(); }
  [[nodiscard]] bool is_successor() const noexcept override {
    return membership_.world().epoch > 1;
  }
  [[nodiscard]] std::string description() const override { return membership_.description(); }
  [[nodiscard]] int workers_of_batch() const noexcept override {
    return membership_.options().global_batch == GlobalBatch::follows_world ? membership_.slots()
                                                                            : 0;
  }
  [[nodiscard]] EncodeState encode_state() const noexcept override { return &encode_checkpoint; }
  [[nodiscard]] DecodeState decode_state() const noexcept override { return &decode_checkpoint; }

 private:
  const Membership& membership_;
};

}  // namespace detail

template <CollectivePolicy Policy>
MultiWorkerMirroredStrategy<Policy>::MultiWorkerMirroredStrategy(
    const MultiWorkerMirroredOptions& options)
    : MultiWorkerMirroredStrategy(cluster_from_environment(), options) {}

template <CollectivePolicy Policy>
MultiWorkerMirroredStrategy<Policy>::MultiWorkerMirroredStrategy(
    const Cluster& cluster, const MultiWorkerMirroredOptions& options)
    : options_(options.communication_options),
      sharded_updates_(options.sharded_updates),
      elastic_(options.elastic),
      cluster_(checked(cluster)),
      membership_(join()),
      world_(membership_ == nullptr ? nullptr
                                    : std::make_unique<detail::MembersWorld>(*membership_)),
      threads_(count(options.replicas), count(options.replicas) * workers_on_host(),
               options.pinning) {
  membership_ == nullptr ? connect() : connect_world();
}

template <CollectivePolicy Policy>
MultiWorkerMirroredStrategy<Policy>::~MultiWorkerMirroredStrategy() {
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

template <CollectivePolicy Policy>
void MultiWorkerMirroredStrategy<Policy>::reconnect() {
  if (threads_.is_running())
    throw Error(
        "MultiWorkerMirroredStrategy: reconnect() was called while the replicas are at work");
  disconnect();
  detail::LastWords::say_now();
  if (membership_ != nullptr) return connect_world();
  cluster_ = met(std::move(cluster_), port_, options_);
  connect();
}

template <CollectivePolicy Policy>
void MultiWorkerMirroredStrategy<Policy>::disconnect() noexcept {
  replicas_.clear();
  group_.reset();
  policy_.reset();
}

template <CollectivePolicy Policy>
std::unique_ptr<Membership> MultiWorkerMirroredStrategy<Policy>::join() const {
  if (!elastic_ || num_workers() == 1) return nullptr;
  auto membership = std::make_unique<Membership>(
      worker_index(), cluster_.addresses(), *elastic_, options_,
      concat({"lockstep ", version_major, ".", version_minor, ".", version_patch, ", built for ",
              detail::instruction_set_of_build()}));
  detail::note_world(0,
                     "");  // a launcher shall know before the first world that the job is elastic
  return membership;
}

/// A worker may be lost while the members of a new world connect: then they form another one. But
/// where none comes to work, something is between their ports.
template <CollectivePolicy Policy>
void MultiWorkerMirroredStrategy<Policy>::connect_world() {
  using Clock = std::chrono::steady_clock;
  for (auto deadline = Clock::time_point::max();;) {
    membership_->form(port_);
    cluster_.spec = {};
    cluster_.spec.worker = membership_->addresses();
    cluster_.task = {TaskType::worker, membership_->world().rank_of(membership_->slot())};
    try {
      connect();
      membership_->works();
      detail::note_world(membership_->world().epoch, membership_->world().members());
      log_line(concat({membership_->description(), ", this is worker ", membership_->slot()}));
      return;
    } catch (const CollectiveError& error) {
      disconnect();
      if (error.exit_code() != ExitCode::lost_peer) throw;
      if (deadline == Clock::time_point::max()) deadline = Clock::now() + options_.startup_timeout;
      if (Clock::now() >= deadline) {
        CollectiveFailure failure = error.failure();
        failure.reason += "; no world comes to work. The workers of the last one listen at";
        for (const std::string& address : membership_->addresses()) failure.reason += " " + address;
        failure.reason += ", ports that the system chooses: they must reach each other there";
        throw CollectiveError(std::move(failure));
      }
      log_line(concat({membership_->description(), " does not come to work: ", error.what()}));
    }
  }
}

template <CollectivePolicy Policy>
void MultiWorkerMirroredStrategy<Policy>::run_each(FunctionRef<void(Replica&)> f) {
  if (group_ == nullptr)
    throw Error("MultiWorkerMirroredStrategy: the workers are not connected: reconnect() failed");
  const auto call = [&](int i) { f(replicas_[static_cast<std::size_t>(i)]); };
  const auto abort = [&](int i, std::string_view what, ExitCode code) {
    group_->member(i).abort(what, code);
  };
  threads_.run(call, abort, [&] {
    group_->drain();  // an exception may leave a reduction behind that uses f's memory
    group_->reset();
  });
}

// With the exception's message if possible, which lockstep::run will know.
template <CollectivePolicy Policy>
void MultiWorkerMirroredStrategy<Policy>::tell_failure() noexcept {
  const std::shared_ptr<Policy> policy(std::move(policy_));
  try {
    if (detail::LastWords::leave([policy](std::string_view reason, ExitCode code) {
          detail::abort(*policy, reason, code);
        }))
      return;
  } catch (...) {  // out of memory: without the message
  }
  policy->abort("ended because of an exception");
}

template <CollectivePolicy Policy>
Cluster MultiWorkerMirroredStrategy<Policy>::checked(const Cluster& cluster) const {
  options_.validate();
  cluster.validate();
  if (elastic_) check_elastic(cluster);
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
  detail::set_log_place(cluster.rank(), cluster.meeting ? cluster.meeting->job : "");
  detail::LastWords::say_now();  // an earlier strategy's: its port is needed
  return met(cluster, port_, options_);
}

template <CollectivePolicy Policy>
void MultiWorkerMirroredStrategy<Policy>::check_elastic(const Cluster& cluster) const {
  if (cluster.meeting)
    throw ConfigurationError(
        concat({"MultiWorkerMirroredOptions::elastic needs the addresses of all workers, and ",
                cluster.source, " names that of rank 0 alone: give them in TF_CONFIG"}));
  if (std::same_as<Policy, SharedMemory>)
    throw ConfigurationError(
        "MultiWorkerMirroredOptions::elastic with SharedMemory: the memory is made for one number "
        "of workers; take Auto or Ring<Tcp>");
  elastic_->validate(cluster.world_size());
}

template <CollectivePolicy Policy>
void MultiWorkerMirroredStrategy<Policy>::connect() {
  const int replicas = threads_.size();
  if (num_workers() > 1) {
    Rendezvous rendezvous{.rank = worker_index(), .addresses = cluster_.addresses()};
    rendezvous.properties = {
        {"lockstep version", std::to_string(version_major) + "." + std::to_string(version_minor) +
                                 "." + std::to_string(version_patch)},
        {"instruction set of the build", detail::instruction_set_of_build()},
        {"replicas per worker", std::to_string(replicas)}};
    CommunicationOptions options = options_;
    if (membership_ != nullptr) {
      rendezvous.properties.emplace_back("world", membership_->world().text());
      // All are there: one that does not come is lost.
      options.startup_timeout = std::clamp<std::chrono::milliseconds>(
          elastic_->wait, std::chrono::seconds(5), std::chrono::seconds(60));
    }
    rendezvous.ranks_on_host = workers_on_host() * replicas;
    rendezvous.port = port_;
    rendezvous.was_connected = was_connected_;
    policy_.reset(new Policy(Policy::connect(rendezvous, options)));
    was_connected_ = true;
  }
  group_ = std::make_unique<HierarchicalGroup<Policy>>(replicas, policy_.get(), options_,
                                                       workers_on_host() * replicas);
  replicas_.reserve(static_cast<std::size_t>(replicas));
  for (int i = 0; i < replicas; ++i)
    replicas_.emplace_back(group_->member(i), i, replicas, &threads_);
  detail::note_met();
}

template <CollectivePolicy Policy>
int MultiWorkerMirroredStrategy<Policy>::count(int requested) const {
  const int given = requested == 0 ? cores_given_by_launcher() : 0;
  return given > 0 ? given : ReplicaThreads::count(requested, workers_on_host());
}

// How many workers share this worker's cores, as far as addresses and the launcher tell.
template <CollectivePolicy Policy>
int MultiWorkerMirroredStrategy<Policy>::workers_on_host() const {
  if (num_workers() == 1 || cores_given_by_launcher() > 0) return 1;
  const auto addresses = cluster_.addresses();
  const std::string host = parse_address(addresses[static_cast<std::size_t>(worker_index())]).host;
  int workers = 0;
  for (const std::string& address : addresses) workers += parse_address(address).host == host;
  return workers;
}

}  // namespace lockstep::inline LOCKSTEP_ABI

// What of a MultiWorkerMirroredStrategy depends on its policy: the connections, and the replicas
// that use them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "lockstep/collectives/policies/hierarchical.hpp"
#include "lockstep/collectives/policies/hierarchical_group.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/strategies/detail/worker_connections.hpp"
#include "lockstep/strategies/replica.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <CollectivePolicy Policy>
class PolicyConnections final : public WorkerConnections {
 public:
  using Replica = CollectiveReplica<Hierarchical<Policy>>;

  void connect(const Rendezvous& rendezvous, const CommunicationOptions& options) override {
    policy_.reset(new Policy(Policy::connect(rendezvous, options)));
    worker_ = rendezvous.workers.empty()
                  ? -1
                  : rendezvous.workers[static_cast<std::size_t>(rendezvous.rank)];
  }
  void make_replicas(ReplicaThreads& threads, int threads_on_host,
                     const CommunicationOptions& options) override {
    const int count = threads.size();
    group_ = std::make_unique<HierarchicalGroup<Policy>>(count, policy_.get(), options,
                                                         threads_on_host, worker_);
    replicas_.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) replicas_.emplace_back(group_->member(i), i, count, &threads);
  }
  void disconnect() noexcept override {
    replicas_.clear();
    group_.reset();
    policy_.reset();
  }

  [[nodiscard]] bool has_peers() const noexcept override { return policy_ != nullptr; }
  [[nodiscard]] bool has_replicas() const noexcept override { return group_ != nullptr; }

  [[nodiscard]] void* replica(int i) noexcept override {
    return &replicas_[static_cast<std::size_t>(i)];
  }
  void abort(int i, std::string_view what, ExitCode code) noexcept override {
    group_->member(i).abort(what, code);
  }
  void depart(int i) noexcept override { group_->depart(i); }
  void assemble() noexcept override { group_->assemble(); }
  void reset() noexcept override {
    group_->drain();  // an exception may leave a reduction behind that uses a replica's memory
    group_->reset();
  }

  void close() override {
    if constexpr (ClosingCollective<Policy>) policy_->close();
  }
  [[nodiscard]] Tell last_words() const override {
    return [policy = policy_](std::string_view reason, ExitCode code) {
      detail::abort(*policy, reason, code);
    };
  }
  void abort_all(std::string_view reason) noexcept override { policy_->abort(reason); }

 private:
  int worker_ = -1;
  std::shared_ptr<Policy> policy_;
  std::unique_ptr<HierarchicalGroup<Policy>> group_;
  std::vector<Replica> replicas_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

// AnyStrategy and AnyReplica: any strategy behind one type, for code that is compiled once.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/strategies/concepts.hpp"
#include "lockstep/strategies/replica_threads.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

class ElasticWorld;

/// A Replica, in a function that a strategy runs on each of its replicas. The library's strategies
/// hand it out; those of others are wrapped in it.
class AnyReplica {
 public:
  /// `threads`: those of the process's replicas, if there are several.
  AnyReplica(std::shared_ptr<AnyCollective> collective, int local_rank, int local_size,
             ReplicaThreads* threads = nullptr, int connection = 0) noexcept
      : collective_(std::move(collective)),
        local_rank_(local_rank),
        local_size_(local_size),
        threads_(threads),
        connection_(connection) {}
  AnyReplica(const AnyReplica&) = delete;
  AnyReplica& operator=(const AnyReplica&) = delete;
  virtual ~AnyReplica() = default;

  [[nodiscard]] AnyCollective& collective() noexcept { return *collective_; }
  [[nodiscard]] int local_rank() const noexcept { return local_rank_; }
  [[nodiscard]] int local_size() const noexcept { return local_size_; }
  /// Where the first replica of a process shows the other workers what it does; null on others.
  [[nodiscard]] ActivityBoard* board() noexcept {
    return local_rank_ == 0 ? collective_->board() : nullptr;
  }
  /// The number, from 1, of the strategy's connection to the other workers that this replica
  /// belongs to; 0 where it does not count them.
  [[nodiscard]] int connection() const noexcept { return connection_; }
  virtual void team_barrier() { collective_->team_barrier(); }
  /// Called by every replica of the process: once all are here, the first one calls f(), and the
  /// others return when f has. If the strategy has the optional team_lead, f may use models of it.
  virtual void team_lead(FunctionRef<void()> f) {
    if (threads_ != nullptr)
      threads_->lead(local_rank_, f);
    else if (local_rank_ == 0)
      f();
  }

 private:
  std::shared_ptr<AnyCollective> collective_;
  int local_rank_;
  int local_size_;
  ReplicaThreads* threads_;
  int connection_;
};

/// A Strategy, as the library's are; others are wrapped in it. Thread safety and errors are the
/// strategy's.
class AnyStrategy {
 public:
  AnyStrategy() = default;
  AnyStrategy(const AnyStrategy&) = delete;
  AnyStrategy& operator=(const AnyStrategy&) = delete;
  virtual ~AnyStrategy() = default;

  [[nodiscard]] virtual int num_workers() const = 0;
  [[nodiscard]] virtual int worker_index() const = 0;
  [[nodiscard]] bool is_chief() const { return worker_index() == 0; }
  [[nodiscard]] virtual int local_replicas() const = 0;
  [[nodiscard]] int num_replicas_in_sync() const { return num_workers() * local_replicas(); }
  virtual void run(FunctionRef<void(AnyReplica&)> f) = 0;

  /// What has named this worker's place; empty for a strategy of one worker, or one that cannot
  /// tell.
  [[nodiscard]] virtual std::string cluster_source() const { return {}; }

  /// Whether the optional reconnect() is there.
  [[nodiscard]] virtual bool can_reconnect() const { return false; }
  virtual void reconnect() {}
  /// False for a strategy that cannot tell.
  [[nodiscard]] virtual bool is_running() const { return false; }
  /// nullptr where the number of workers stays.
  [[nodiscard]] virtual const ElasticWorld* elastic_world() const { return nullptr; }

  /// Whether parameters live on servers. Workers then have no collective operations.
  [[nodiscard]] virtual bool has_parameter_servers() const { return false; }
  /// Whether its several workers share out the updates.
  [[nodiscard]] virtual bool sharded_updates() const { return false; }
  /// Whether each of them keeps the gradients of its share alone, too.
  [[nodiscard]] virtual bool sharded_gradients() const { return false; }
  /// Counts one more model; returns their number. 0 for a strategy that does not count.
  virtual int count_model() { return 0; }
};

namespace detail {

template <Replica R>
class ReplicaAdapter final : public AnyReplica {
 public:
  explicit ReplicaAdapter(R& replica)
      : AnyReplica(any_collective(replica.collective()), replica.local_rank(),
                   replica.local_size()),
        replica_(replica) {}

  void team_barrier() override { replica_.team_barrier(); }
  void team_lead(FunctionRef<void()> f) override {
    if constexpr (requires { replica_.team_lead(f); }) {
      replica_.team_lead(f);
    } else {
      replica_.team_barrier();
      if (replica_.local_rank() == 0) f();
      replica_.team_barrier();
    }
  }

 private:
  R& replica_;
};

/// Made from an R&: the same object if it is an AnyReplica.
template <Replica R>
using AnyReplicaOf = std::conditional_t<std::derived_from<R, AnyReplica>, R&, ReplicaAdapter<R>>;

template <Strategy S>
class StrategyAdapter final : public AnyStrategy {
 public:
  explicit StrategyAdapter(S& strategy) : strategy_(strategy) {}

  [[nodiscard]] int num_workers() const override { return strategy_.num_workers(); }
  [[nodiscard]] int worker_index() const override { return strategy_.worker_index(); }
  [[nodiscard]] int local_replicas() const override { return strategy_.local_replicas(); }
  void run(FunctionRef<void(AnyReplica&)> f) override {
    if constexpr (std::derived_from<typename S::Replica, AnyReplica>)
      strategy_.run(f);
    else
      strategy_.run([&](typename S::Replica& replica) {
        ReplicaAdapter any(replica);
        f(any);
      });
  }

  [[nodiscard]] std::string cluster_source() const override {
    if constexpr (requires { strategy_.cluster_source(); }) return strategy_.cluster_source();
    return {};
  }

  [[nodiscard]] bool can_reconnect() const override { return reconnects; }
  void reconnect() override {
    if constexpr (reconnects) strategy_.reconnect();
  }
  [[nodiscard]] bool is_running() const override {
    if constexpr (requires {
                    { strategy_.is_running() } -> std::same_as<bool>;
                  })
      return strategy_.is_running();
    return false;
  }
  [[nodiscard]] const ElasticWorld* elastic_world() const override {
    if constexpr (requires { strategy_.elastic_world(); }) return strategy_.elastic_world();
    return nullptr;
  }
  [[nodiscard]] bool has_parameter_servers() const override {
    if constexpr (requires { strategy_.has_parameter_servers(); })
      return strategy_.has_parameter_servers();
    return false;
  }
  [[nodiscard]] bool sharded_updates() const override {
    if constexpr (requires {
                    { strategy_.sharded_updates() } -> std::same_as<bool>;
                  })
      return strategy_.num_workers() > 1 && strategy_.sharded_updates();
    return false;
  }
  [[nodiscard]] bool sharded_gradients() const override {
    if constexpr (requires {
                    { strategy_.sharded_gradients() } -> std::same_as<bool>;
                  })
      return sharded_updates() && strategy_.sharded_gradients();
    return false;
  }
  int count_model() override {
    if constexpr (requires { strategy_.count_model(); }) return strategy_.count_model();
    return 0;
  }

 private:
  static constexpr bool reconnects = requires(S& strategy) { strategy.reconnect(); };

  S& strategy_;
};

}  // namespace detail

/// Refers to the strategy.
template <Strategy S>
[[nodiscard]] std::shared_ptr<AnyStrategy> any_strategy(S& strategy) {
  return std::make_shared<detail::StrategyAdapter<S>>(strategy);
}

}}  // namespace lockstep

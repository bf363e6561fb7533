#include "lockstep/strategies/concepts.hpp"

#include <doctest/doctest.h>

#include "lockstep/collectives/policies/single.hpp"

using namespace lockstep;

namespace {

struct MinimalReplica {
  Single single;
  Single& collective() { return single; }
  int local_rank() const { return 0; }
  int local_size() const { return 1; }
  void team_barrier() {}
};

/// A user's own strategy: one replica, after a word.
struct MinimalStrategy {
  using Replica = MinimalReplica;
  Replica replica{};
  int num_workers() const { return 1; }
  int worker_index() const { return 0; }
  bool is_chief() const { return true; }
  int local_replicas() const { return 1; }
  int num_replicas_in_sync() const { return 1; }
  template <class F>
  void run(F&& f) {
    f(replica);
  }
};
static_assert(Replica<MinimalReplica>);
static_assert(Strategy<MinimalStrategy>);

struct ReplicaWithoutCollective : MinimalReplica {
  int collective() { return 0; }
};
static_assert(!Replica<ReplicaWithoutCollective>);

struct ReplicaWithoutTeam : MinimalReplica {
  void team_barrier() = delete;
};
static_assert(!Replica<ReplicaWithoutTeam>);

struct StrategyWithoutReplica {
  int num_workers() const { return 1; }
};
static_assert(!Strategy<StrategyWithoutReplica>);

struct StrategyWithoutRun : MinimalStrategy {
  void run() {}
};
static_assert(!Strategy<StrategyWithoutRun>);

struct StrategyWithAnotherChief : MinimalStrategy {
  int is_chief() const { return 1; }
};
static_assert(!Strategy<StrategyWithAnotherChief>);

}  // namespace

TEST_CASE("strategies: concepts accept minimal models and reject near misses") {
  MinimalStrategy strategy;
  int calls = 0;
  strategy.run([&](auto& replica) { calls += replica.collective().size(); });
  CHECK(calls == 1);
}

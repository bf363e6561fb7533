#include "lockstep/strategies/any_strategy.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/worker_threads.hpp"

using namespace lockstep;
using lockstep_test::run_workers;
using lockstep_test::WorkerStrategy;

namespace {

/// Replicas are threads, with what a strategy must have and nothing else.
class TeamStrategy {
 public:
  struct Replica {
    InProcess member;
    InProcess& collective() { return member; }
    [[nodiscard]] int local_rank() const { return member.rank(); }
    [[nodiscard]] int local_size() const { return member.size(); }
    void team_barrier() { member.barrier(); }
  };

  [[nodiscard]] int num_workers() const { return 1; }
  [[nodiscard]] int worker_index() const { return 0; }
  [[nodiscard]] bool is_chief() const { return true; }
  [[nodiscard]] int local_replicas() const { return 3; }
  [[nodiscard]] int num_replicas_in_sync() const { return 3; }

  template <class F>
  void run(F&& f) {
    InProcessGroup group(3, lockstep_test::patient_options());
    lockstep_test::rethrow_first(lockstep_test::run_threads(3, [&](int rank) {
      Replica replica{group.member(rank)};
      try {
        f(replica);
      } catch (const std::exception& error) {
        replica.member.abort(error.what());
        throw;
      }
    }));
  }
};
static_assert(Strategy<TeamStrategy>);

}  // namespace

TEST_CASE("AnyStrategy: one device") {
  OneDeviceStrategy strategy;
  const std::shared_ptr<AnyStrategy> any = any_strategy(strategy);
  CHECK(any->num_workers() == 1);
  CHECK(any->worker_index() == 0);
  CHECK(any->is_chief());
  CHECK(any->local_replicas() == 1);
  CHECK(any->num_replicas_in_sync() == 1);
  CHECK_FALSE(any->can_reconnect());
  CHECK_FALSE(any->is_running());
  int calls = 0;
  any->run([&](AnyReplica& replica) {
    CHECK(replica.collective().size() == 1);
    CHECK_FALSE(replica.collective().can().scatter);
    replica.team_barrier();
    replica.team_lead([&] { ++calls; });
  });
  CHECK(calls == 1);
}

TEST_CASE("AnyStrategy: the replicas of a process are threads of it") {
  MirroredStrategy strategy({.replicas = 3});
  const auto any = any_strategy(strategy);
  CHECK(any->local_replicas() == 3);
  CHECK(any->num_replicas_in_sync() == 3);
  CHECK_FALSE(any->can_reconnect());
  CHECK_FALSE(any->is_running());
  std::atomic<int> calls = 0, led = 0;
  any->run([&](AnyReplica& replica) {
    CHECK(replica.local_size() == 3);
    CHECK(replica.collective().rank() == replica.local_rank());
    CHECK(replica.collective().can().scatter);
    CHECK(replica.collective().can().scatter_early);
    CHECK(replica.collective().board() != nullptr);
    std::vector<double> values{1.0 * replica.local_rank()};
    replica.collective().all_reduce(std::span<double>(values), ReduceOp::sum);
    CHECK(values[0] == 3);
    replica.team_lead([&] {
      ++led;
      // The other replicas take part in what a model of the strategy does.
      any->run([&](AnyReplica& inner) {
        inner.collective().barrier();
        ++calls;
      });
    });
    CHECK(calls == 3);
  });
  CHECK(led == 1);
  CHECK_THROWS_WITH_AS(any->run([](AnyReplica& replica) {
    if (replica.local_rank() == 2) throw std::runtime_error("enough");
    replica.team_barrier();
  }),
                       "enough", std::runtime_error);
}

TEST_CASE("AnyStrategy: workers have one replica each or several, and can connect anew") {
  for (const int replicas : {1, 2}) {
    CAPTURE(replicas);
    const auto addresses = lockstep_test::free_addresses(2);
    lockstep_test::rethrow_first(lockstep_test::run_threads(2, [&](int worker) {
      Cluster own;
      own.spec.worker = addresses;
      own.task.index = worker;
      MultiWorkerMirroredOptions options{.replicas = replicas,
                                         .communication_options = lockstep_test::patient_options()};
      options.communication_options.overlap = Overlap::on;
      MultiWorkerMirroredStrategy<Ring<Tcp>> strategy(own, options);
      const auto any = any_strategy(strategy);
      CHECK(any->num_workers() == 2);
      CHECK(any->worker_index() == worker);
      CHECK(any->is_chief() == (worker == 0));
      CHECK(any->num_replicas_in_sync() == 2 * replicas);
      CHECK(any->can_reconnect());
      any->run([&](AnyReplica& replica) {
        CHECK(replica.collective().rank() == worker * replicas + replica.local_rank());
        CHECK_FALSE(replica.collective().can().scatter);
        CHECK_FALSE(replica.collective().can().share);
        CHECK(replica.collective().can().overlap);
        CHECK(replica.collective().overlap() == Overlap::on);
        std::vector<float> values(1000, 1);
        replica.collective().all_reduce_async(std::span<float>(values));
        replica.collective().wait();
        CHECK(values[999] == static_cast<float>(2 * replicas));
      });
    }));
  }
}

TEST_CASE("AnyStrategy: a user's strategy without what is optional") {
  std::vector<double> sums(2);
  const auto failures = run_workers(2, [&](WorkerStrategy& strategy) {
    const auto any = any_strategy(strategy);
    CHECK(any->num_replicas_in_sync() == 2);
    CHECK_FALSE(any->can_reconnect());
    CHECK_FALSE(any->is_running());
    any->run([&](AnyReplica& replica) {
      CHECK(replica.collective().board() == nullptr);
      CHECK(replica.collective().overlap() == Overlap::off);
      std::vector<double> values{1.0 + any->worker_index()};
      replica.collective().all_reduce(std::span<double>(values), ReduceOp::sum);
      replica.team_lead([&] { sums[static_cast<std::size_t>(any->worker_index())] = values[0]; });
    });
  });
  for (const std::string& failure : failures) CHECK(failure.empty());
  CHECK(sums == std::vector<double>{3, 3});
}

TEST_CASE("AnyReplica: without team_lead the first replica calls it between two barriers") {
  TeamStrategy strategy;
  const auto any = any_strategy(strategy);
  std::atomic<int> come = 0;
  int seen = 0;
  any->run([&](AnyReplica& replica) {
    ++come;
    replica.team_lead([&] { seen = come; });
    CHECK(seen == 3);  // all had come, and wait for it
  });
  CHECK_THROWS_WITH_AS(any->run([](AnyReplica& replica) {
    replica.team_lead([] { throw std::runtime_error("a callback"); });
  }),
                       "a callback", std::runtime_error);
}

#include "lockstep/strategies/multi_worker_mirrored.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/collectives/address.hpp"
#include "lockstep/core/exit_report.hpp"
#include "lockstep/strategies/mirrored.hpp"

using namespace lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

/// A user's own policy: "workers" are threads of this process, and connecting to them takes no
/// socket.
class ThreadPolicy {
 public:
  static inline InProcessGroup* group = nullptr;
  static inline std::atomic<int> connected = 0;
  static inline std::atomic<int> closed = 0;
  static inline std::vector<std::pair<std::string, std::string>> properties;

  static ThreadPolicy connect(const Rendezvous& rendezvous, const CommunicationOptions&) {
    ++connected;
    if (rendezvous.rank == 0) properties = rendezvous.properties;
    return ThreadPolicy(group->member(rendezvous.rank));
  }

  int rank() const { return member_.rank(); }
  int size() const { return member_.size(); }
  template <Reducible T>
  void all_reduce(std::span<T> values, ReduceOp op = ReduceOp::sum) {
    member_.all_reduce(values, op);
  }
  template <Reducible T>
  void all_reduce(std::span<double> status, std::span<T> values) {
    member_.all_reduce(status, values);
  }
  void broadcast(std::span<std::byte> bytes, int root) { member_.broadcast(bytes, root); }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
    member_.all_gather(mine, all);
  }
  void barrier() { member_.barrier(); }
  void abort(std::string_view reason) noexcept { member_.abort(reason); }
  void close() { ++closed; }

 private:
  explicit ThreadPolicy(InProcess member) : member_(std::move(member)) {}
  InProcess member_;
};
static_assert(CollectivePolicy<ThreadPolicy>);
static_assert(Strategy<MultiWorkerMirroredStrategy<ThreadPolicy>>);

using TcpStrategy = MultiWorkerMirroredStrategy<Ring<Tcp>>;
static_assert(Strategy<TcpStrategy>);

Cluster workers(int size, int rank, std::vector<std::string> addresses = {}) {
  Cluster cluster;
  for (int i = 0; i < size; ++i)
    cluster.spec.worker.push_back(addresses.empty() ? "127.0.0.1:" + std::to_string(1000 + i)
                                                    : addresses[static_cast<std::size_t>(i)]);
  cluster.task.index = rank;
  return cluster;
}

/// What ends each of two workers, of two replicas each, that run f.
template <class F>
std::vector<std::string> heard_by_two(F f) {
  std::vector<std::string> heard(2);
  InProcessGroup group(2);
  ThreadPolicy::group = &group;
  run_threads(2, [&](int worker) {
    MultiWorkerMirroredStrategy<ThreadPolicy> strategy(workers(2, worker), {.replicas = 2});
    try {
      strategy.run(f);
    } catch (const std::exception& error) {
      heard[static_cast<std::size_t>(worker)] = error.what();
    }
  });
  return heard;
}

void in_workers(int size, const std::function<void(int)>& f) {
  InProcessGroup group(size);
  ThreadPolicy::group = &group;
  ThreadPolicy::connected = 0;
  ThreadPolicy::closed = 0;
  rethrow_first(run_threads(size, f));
}

}  // namespace

TEST_SUITE("multi_worker_mirrored") {
  TEST_CASE("alone when TF_CONFIG is unset or names one worker: nothing is connected") {
    ::unsetenv("TF_CONFIG");
    ThreadPolicy::connected = 0;
    for (const int replicas : {1, 3}) {
      for (const bool one_worker : {false, true}) {
        if (one_worker)
          ::setenv("TF_CONFIG",
                   R"({"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":0}})", 1);
        MultiWorkerMirroredStrategy<ThreadPolicy> strategy({.replicas = replicas});
        ::unsetenv("TF_CONFIG");
        CHECK(strategy.num_workers() == 1);
        CHECK(strategy.is_chief());
        CHECK(strategy.num_replicas_in_sync() == replicas);
        strategy.run([&](auto& replica) {
          std::vector<double> values{1.0};
          replica.collective().all_reduce(std::span(values));
          CHECK(values[0] == replicas);
          CHECK(replica.collective().size() == replicas);
          replica.team_barrier();
        });
      }
    }
    CHECK(ThreadPolicy::connected == 0);
  }

  TEST_CASE("a user's own policy; ranks count worker by worker") {
    in_workers(3, [](int worker) {
      MultiWorkerMirroredStrategy<ThreadPolicy> strategy(workers(3, worker), {.replicas = 2});
      CHECK(strategy.num_workers() == 3);
      CHECK(strategy.worker_index() == worker);
      CHECK(strategy.is_chief() == (worker == 0));
      CHECK(strategy.num_replicas_in_sync() == 6);
      strategy.run([&](auto& replica) {
        CHECK(replica.collective().rank() == 2 * worker + replica.local_rank());
        CHECK(replica.collective().size() == 6);
        std::vector<float> values(100, static_cast<float>(replica.collective().rank()));
        replica.collective().all_reduce(std::span(values));
        CHECK(values[99] == 15.0f);
        replica.team_barrier();
      });
    });
    CHECK(ThreadPolicy::connected == 3);
    CHECK(ThreadPolicy::closed == 3);
    CHECK(ThreadPolicy::properties[2] ==
          std::pair<std::string, std::string>{"replicas per worker", "2"});
  }

  TEST_CASE("an exception on one worker's replica ends all workers, with its reason") {
    const auto heard = heard_by_two([](auto& replica) {
      if (replica.collective().rank() == 3) throw std::runtime_error("no more memory");
      for (;;) replica.collective().barrier();
    });
    // (These workers are threads of a group.)
    CHECK(heard[0].starts_with("barrier: replica 1 failed: no more memory"));
    CHECK(heard[1] == "no more memory");
  }

  TEST_CASE("a replica that leaves early ends all workers, with its name") {
    for (const std::string& text : heard_by_two([](auto& replica) {
           while (replica.collective().rank() != 3) replica.collective().barrier();
         }))
      CHECK(text.find("this replica has left what the strategy's run() gave to all") !=
            std::string::npos);
  }

  TEST_CASE("an exception outside of run aborts, and closes nothing") {
    InProcessGroup group(2);
    ThreadPolicy::group = &group;
    ThreadPolicy::closed = 0;
    const auto thrown = run_threads(2, [&](int worker) {
      MultiWorkerMirroredStrategy<ThreadPolicy> strategy(workers(2, worker));
      if (worker == 1) throw std::runtime_error("elsewhere");
      strategy.run([](auto& replica) { replica.collective().barrier(); });
    });
    CHECK(message_of(thrown[0]).find("ended because of an exception") != std::string::npos);
    CHECK(message_of(thrown[1]) == "elsewhere");
    CHECK(ThreadPolicy::closed == 0);
  }

  TEST_CASE(
      "an exception outside of run, within lockstep::run: the others hear its message and exit "
      "code") {
    const auto addresses = free_addresses(2);
    const auto thrown = run_threads(2, [&](int worker) {
      detail::ExitReport words;  // as lockstep::run has
      try {
        TcpStrategy strategy(workers(2, worker, addresses),
                             {.communication_options = patient_options()});
        if (worker == 0) throw ConfigurationError("cannot open 'images'");
        strategy.run([](auto& replica) { replica.collective().barrier(); });
      } catch (const Error& error) {
        words.say(error.what(), error.exit_code());
        throw;
      }
    });
    const CollectiveFailure failure = failure_of(thrown[1]);
    CHECK(failure.failed_rank == 0);
    CHECK(failure.reason == "cannot open 'images'");
    CHECK(failure.code == ExitCode::usage);
    CHECK(message_of(thrown[0]) == "cannot open 'images'");
  }

  TEST_CASE("clusters and options that make no sense") {
    CHECK_THROWS_AS(MultiWorkerMirroredStrategy<ThreadPolicy>(workers(2, 2)), ConfigurationError);
    CHECK_THROWS_AS(MultiWorkerMirroredStrategy<ThreadPolicy>({.replicas = -1}),
                    ConfigurationError);
    CHECK_THROWS_AS(MultiWorkerMirroredStrategy<ThreadPolicy>(
                        workers(2, 0), {.communication_options = {.timeout = -1s}}),
                    ConfigurationError);
    Cluster evaluator = workers(2, 0);
    evaluator.task.type = TaskType::evaluator;
    try {
      MultiWorkerMirroredStrategy<ThreadPolicy> strategy(evaluator);
      FAIL("accepted");
    } catch (const ConfigurationError& error) {
      CHECK(std::string(error.what()).find("is the evaluator of the cluster") != std::string::npos);
      CHECK(std::string(error.what()).find("SidecarEvaluator") != std::string::npos);
    }
  }

  TEST_CASE("over TCP, threads and processes of equal number hold equal bits") {
    const auto values_of = [](int rank) {
      std::vector<float> values(3 * block_elements / 2);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = 1.0f / static_cast<float>(i % 1013 + static_cast<std::size_t>(3 * rank + 1));
      return values;
    };
    std::vector<std::vector<float>> tcp(3), threads(3);
    LocalCluster cluster(3);
    std::vector<int> ports;
    for (auto& listener : cluster.listeners)
      ::close(listener.release());  // TF_CONFIG names free ports
    rethrow_first(run_threads(3, [&](int worker) {
      TcpStrategy strategy(workers(3, worker, cluster.addresses));
      strategy.run([&](auto& replica) {
        auto values = values_of(worker);
        replica.collective().all_reduce(std::span(values));
        tcp[static_cast<std::size_t>(worker)] = values;
      });
    }));
    MirroredStrategy strategy({.replicas = 3});
    strategy.run([&](auto& replica) {
      auto values = values_of(replica.local_rank());
      replica.collective().all_reduce(std::span(values));
      threads[static_cast<std::size_t>(replica.local_rank())] = values;
    });
    for (const auto& result : tcp) CHECK(result == threads[0]);
    for (const auto& result : threads) CHECK(result == threads[0]);
  }

  TEST_CASE("reconnect: a survivor meets the successor of a worker that is gone") {
    const auto addresses = free_addresses(2);
    const MultiWorkerMirroredOptions options{.replicas = 2,
                                             .communication_options = patient_options()};
    const auto sum = [](TcpStrategy& strategy) {
      std::vector<float> sums(2);
      strategy.run([&](auto& replica) {
        float one = 1;
        replica.collective().all_reduce(std::span(&one, 1));
        sums[static_cast<std::size_t>(replica.local_rank())] = one;
      });
      return sums;
    };
    rethrow_first(run_threads(2, [&](int rank) {
      const Cluster cluster = workers(2, rank, addresses);
      if (rank == 1) {
        try {
          TcpStrategy strategy(cluster, options);
          (void)sum(strategy);
          throw std::runtime_error("gone");
        } catch (const std::runtime_error&) {
        }
      }
      TcpStrategy strategy(cluster, options);
      if (rank == 0) {
        const auto until_the_loss = [&] {
          for (;;) (void)sum(strategy);
        };
        CHECK_THROWS_AS(until_the_loss(), CollectiveError);
        // No other program gets the port in the meantime.
        sockaddr_in own{};
        own.sin_family = AF_INET;
        own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        own.sin_port = htons(parse_address(addresses[0]).port);
        const int other = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const int on = 1;  // connections of the past do not count
        ::setsockopt(other, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        CHECK(::bind(other, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0);
        ::close(other);
        strategy.reconnect();
      }
      CHECK(sum(strategy) == std::vector<float>{4, 4});
    }));
  }
}

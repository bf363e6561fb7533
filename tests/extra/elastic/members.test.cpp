#include "lockstep/strategies/elastic_world.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/extra/elastic.hpp"
#include "lockstep/extra/elastic/membership.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/free_addresses.hpp"

using namespace lockstep;
using lockstep_test::free_addresses;
using Workers = MultiWorkerMirroredStrategy<Ring<Tcp>>;

namespace {

Cluster two_workers(int index) {
  Cluster cluster;
  cluster.spec.worker = free_addresses(2);
  cluster.task = {TaskType::worker, index};
  return cluster;
}

/// What the constructor says against it.
std::string problem(const Cluster& cluster, const MultiWorkerMirroredOptions& options) {
  try {
    const Workers strategy(cluster, options);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("elastic: what cannot be combined with it is refused before anything is connected") {
  const auto cluster = two_workers(0);
  CHECK(problem(cluster, {.elastic = ElasticOptions{.min_workers = 3}}).find("must be 1 to 2") !=
        std::string::npos);
  Cluster meeting;
  meeting.meeting = Meeting{.rank = 0, .size = 2, .address = "127.0.0.1:1"};
  meeting.source = "torchrun";
  CHECK(
      problem(meeting, {.elastic = ElasticOptions{}}).find("torchrun names that of rank 0 alone") !=
      std::string::npos);
}

TEST_CASE("elastic: workers see their world; one that is alone, and other strategies, have none") {
  OneDeviceStrategy one;
  CHECK(any_strategy(one)->elastic_world() == nullptr);
  Workers alone(Cluster{}, {.elastic = ElasticOptions{}});
  CHECK(any_strategy(alone)->elastic_world() == nullptr);

  for (const bool follows : {false, true}) {
    const auto cluster = two_workers(0);
    const auto worker = [&](int index) {
      Cluster own = cluster;
      own.task.index = index;
      Workers strategy(
          own, {.elastic = ElasticOptions{.global_batch = follows ? GlobalBatch::follows_world
                                                                  : GlobalBatch::fixed}});
      const auto any = any_strategy(strategy);
      REQUIRE(any->elastic_world() != nullptr);
      CHECK_FALSE(any->elastic_world()->has_newcomer());
      CHECK(any->elastic_world()->workers_of_batch() == (follows ? 2 : 0));
      return any->elastic_world()->description() + ", rank " + std::to_string(any->worker_index());
    };
    auto other = std::async(std::launch::async, worker, 1);
    CHECK(worker(0) == "world 1: workers 0 1 (2 of 2), rank 0");
    CHECK(other.get() == "world 1: workers 0 1 (2 of 2), rank 1");
  }
}

using lockstep::ConfigurationError;
using lockstep::ElasticOptions;

TEST_CASE("ElasticOptions: what a cluster of four can have") {
  CHECK_NOTHROW(ElasticOptions{}.validate(4));
  CHECK_NOTHROW((ElasticOptions{.min_workers = 4, .max_workers = 4}.validate(4)));
  CHECK_THROWS_WITH_AS(
      ElasticOptions{.min_workers = 5}.validate(4),
      "ElasticOptions::min_workers must be 1 to 4, the workers of the cluster, got 5",
      ConfigurationError);
  CHECK_THROWS_AS(ElasticOptions{.min_workers = 0}.validate(4), ConfigurationError);
  CHECK_THROWS_AS(ElasticOptions{.max_workers = 8}.validate(4), ConfigurationError);
  CHECK_THROWS_AS(ElasticOptions{.wait = std::chrono::milliseconds(0)}.validate(4),
                  ConfigurationError);
}

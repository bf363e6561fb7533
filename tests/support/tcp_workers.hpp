// Workers over TCP as threads of this process, each with a strategy of its own.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"

namespace lockstep_test {

using TcpStrategy = lockstep::MultiWorkerMirroredStrategy<lockstep::Ring<lockstep::Tcp>>;

/// What train(strategy) returns on each worker. With a `failure`, all must end with an exception
/// that says it: that of another one is heard of, too.
template <class Result, class Train>
std::vector<Result> on_tcp_workers(int workers, int replicas, std::string_view failure,
                                   const Train& train) {
  namespace testing = lockstep_test;
  std::vector<Result> results(static_cast<std::size_t>(workers));
  const auto addresses =
      workers > 1 ? lockstep_test::free_addresses(workers) : std::vector<std::string>{};
  const auto thrown = lockstep_test::run_threads(workers, [&](int rank) {
    lockstep::Cluster cluster;
    cluster.spec.worker = addresses;
    cluster.task.index = rank;
    TcpStrategy strategy(
        cluster, {.replicas = replicas, .communication_options = lockstep_test::patient_options()});
    results.at(static_cast<std::size_t>(rank)) = train(strategy);
  });
  for (const std::exception_ptr& exception : thrown) {
    REQUIRE((exception != nullptr) == !failure.empty());
    REQUIRE(lockstep_test::message_of(exception).find(failure) != std::string::npos);
  }
  return results;
}

}  // namespace lockstep_test

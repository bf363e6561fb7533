#include "lockstep/collectives/hierarchical.hpp"

#include <doctest/doctest.h>

#include "collectives/harness.hpp"

using namespace lockstep;
using namespace lockstep::testing;
using namespace std::chrono_literals;

TEST_SUITE("hierarchical") {
  TEST_CASE("processes with different numbers of replicas are refused, by name") {
    InProcessGroup outer(2);
    const auto thrown = run_threads(2, [&](int worker) {
      InProcess collective = outer.member(worker);
      HierarchicalGroup<InProcess>(worker + 1, &collective);
    });
    CHECK(message_of(thrown[0]) == "all workers must have the same number of replicas: worker 1 has 2, worker 0 has 1");
    CHECK(message_of(thrown[1]) == "all workers must have the same number of replicas: worker 0 has 1, worker 1 has 2");
  }

  TEST_CASE("ranks count worker by worker; alone, the threads are all") {
    HierarchicalGroup<InProcess> alone(3, nullptr);
    CHECK(alone.member(2).rank() == 2);
    CHECK(alone.member(2).size() == 3);
    rethrow_first(run_threads(3, [&](int rank) {
      std::vector<float> values(5, 1.0f);
      alone.member(rank).all_reduce(std::span(values));
      if (values != std::vector<float>(5, 3.0f)) throw Error("sum");
    }));
  }

  TEST_CASE("a failure between processes reaches every thread, as the first replica of the worker that failed") {
    InProcessGroup outer(2, {.timeout = 1s});
    std::vector<std::string> heard(2);
    rethrow_first(run_threads(2, [&](int worker) {
      InProcess collective = outer.member(worker);
      HierarchicalGroup<InProcess> group(2, &collective);
      if (worker == 1) return;  // never comes
      const auto thrown = run_threads(2, [&](int rank) { group.member(rank).barrier(); });
      heard = {message_of(thrown[0]), message_of(thrown[1])};
    }));
    for (const std::string& message : heard) CHECK(message.find("barrier: rank 2 failed: ") == 0);
  }

  TEST_CASE("threads wait for the first one as long as it is outside") {
    InProcessGroup outer(2, {.timeout = 10s});
    rethrow_first(run_threads(2, [&](int worker) {
      InProcess collective = outer.member(worker);
      HierarchicalGroup<InProcess> group(2, &collective, {.timeout = 700ms});
      if (worker == 1) std::this_thread::sleep_for(1500ms);
      rethrow_first(run_threads(2, [&](int rank) {
        auto member = group.member(rank);
        member.barrier();
        // Also on the worker of the root, which is done early, and waits in the next operation.
        std::vector<std::byte> bytes(10);
        if (worker == 1) std::this_thread::sleep_for(1500ms);
        member.broadcast(bytes, 0);
        member.broadcast(bytes, 2);
        member.barrier();
      }));
    }));
  }
}

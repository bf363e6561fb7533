#include "lockstep/collectives/policies/hierarchical.hpp"

#include <doctest/doctest.h>

#include <cstring>

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
    CHECK(message_of(thrown[0]) ==
          "all workers must have the same number of replicas: worker 1 has 2, worker 0 has 1");
    CHECK(message_of(thrown[1]) ==
          "all workers must have the same number of replicas: worker 0 has 1, worker 1 has 2");
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

  TEST_CASE(
      "a failure between processes reaches every thread, as the first replica of the worker that "
      "failed") {
    InProcessGroup outer(2, {.timeout = 1s, .progress_timeout = 1s});
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
      HierarchicalGroup<InProcess> group(2, &collective,
                                         {.timeout = 700ms, .progress_timeout = 700ms});
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

  TEST_CASE_TEMPLATE("all_reduce_async gives the sums of all_reduce, while other operations block",
                     Family, HierarchicalFamily<InProcessFamily>, HierarchicalFamily<TcpFamily>,
                     HierarchicalFamily<SharedMemoryFamily>) {
    for (const int size : {1, 2, 3, 4}) {
      CAPTURE(size);
      const std::size_t range = 4 * block_elements * static_cast<std::size_t>(size);
      const std::size_t count = 2 * range + 1009;
      Family::run(size, [&](auto& collective) {
        auto expected = random_numbers<float>(collective.rank(), count);
        auto values = expected;
        std::vector<double> status{1, 2};
        collective.all_reduce(std::span(status), std::span(expected));
        for (int round = 0; round < 2; ++round) {
          values = random_numbers<float>(collective.rank(), count);
          const std::span<float> all(values);
          collective.all_reduce_async(all.first(range));
          std::vector<double> between{1};
          collective.all_reduce(std::span(between));  // as a synchronised BatchNormalization does
          collective.all_reduce_async(all.subspan(range, range));
          collective.all_reduce(std::span(status), all.subspan(2 * range));
          collective.wait();
          if (between[0] != size) throw Error("an operation between");
          if (std::memcmp(values.data(), expected.data(), count * sizeof(float)) != 0)
            throw Error("other bits");
        }
      });
    }
  }

  TEST_CASE(
      "what fails in an operation that was begun is thrown by the next one, on every thread") {
    for (const bool waits : {true, false}) {
      CAPTURE(waits);
      InProcessGroup outer(2, {.timeout = 500ms, .progress_timeout = 500ms});
      std::vector<std::string> heard(2);
      rethrow_first(run_threads(2, [&](int worker) {
        InProcess collective = outer.member(worker);
        HierarchicalGroup<InProcess> group(2, &collective);
        if (worker == 1) return;  // never comes
        std::vector<std::vector<float>> values(2, std::vector<float>(100));
        const auto thrown = run_threads(2, [&](int rank) {
          auto member = group.member(rank);
          member.all_reduce_async(std::span(values[static_cast<std::size_t>(rank)]));
          waits ? member.wait() : member.barrier();
        });
        heard = {message_of(thrown[0]), message_of(thrown[1])};
      }));
      for (const std::string& message : heard)
        CHECK(message.find("all_reduce: rank 2 failed: ") == 0);
    }
  }

  TEST_CASE("drain ends with nothing under way, soon after an abort") {
    InProcessGroup outer(2, {.timeout = 60s});
    rethrow_first(run_threads(2, [&](int worker) {
      InProcess collective = outer.member(worker);
      HierarchicalGroup<InProcess> group(1, &collective);
      if (worker == 1) return;
      const auto begin = std::chrono::steady_clock::now();
      std::vector<float> values(100);
      group.member(0).all_reduce_async(std::span(values));
      group.member(0).abort("enough");
      group.drain();
      CHECK(std::chrono::steady_clock::now() - begin < 30s);
    }));
  }
}

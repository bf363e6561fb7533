// The network breaks between living ranks: all that still hear each other name the same cause.
#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "collectives/harness.hpp"
#include "collectives/relay.hpp"

using namespace lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

const CommunicationOptions patient = patient_options();
const CommunicationOptions hasty{.timeout = 1500ms, .startup_timeout = 60s};

std::string name(const RelayedCluster& cluster, int rank) {
  return concat({"worker ", rank, " (", cluster.addresses[static_cast<std::size_t>(rank)], ")"});
}

/// The ranks work until they fail; meanwhile something happens to the network.
std::vector<CollectiveFailure> failures(RelayedCluster& cluster,
                                        const CommunicationOptions& options,
                                        const std::function<void()>& happens) {
  const int size = static_cast<int>(cluster.addresses.size());
  std::vector<Rendezvous> places;
  for (int rank = 0; rank < size; ++rank) places.push_back(cluster.place(rank));
  std::atomic<int> working = 0;
  auto thrown = run_threads(size + 1, [&](int rank) {
    if (rank == size) {
      for (int i = 0; i < 6000 && working < size; ++i) std::this_thread::sleep_for(10ms);
      std::this_thread::sleep_for(50ms);
      return happens();
    }
    auto ring = Ring<Tcp>::connect(places[static_cast<std::size_t>(rank)], options);
    ring.barrier();
    ++working;
    std::vector<float> values(100);
    for (;;) ring.all_reduce(std::span(values));
  });
  thrown.pop_back();
  std::vector<CollectiveFailure> result;
  for (const auto& exception : thrown) result.push_back(failure_of(exception));
  return result;
}

void check_same(const std::vector<CollectiveFailure>& failures, int failed) {
  for (const CollectiveFailure& failure : failures) {
    CAPTURE(failure.reason);
    CHECK(failure.failed_rank == failed);
    CHECK(failure.reason == failures[0].reason);
    CHECK(failure.code == ExitCode::lost_peer);
  }
}

}  // namespace

TEST_SUITE("verdict") {
  TEST_CASE(
      "a reset between two of three ranks, of whatever connection, is called that by all and "
      "neither is blamed") {
    for (const auto& connections :
         {std::pair(true, true), std::pair(true, false), std::pair(false, true)})
      for (const auto& ranks : {std::pair(0, 1), std::pair(0, 2), std::pair(1, 2)}) {
        const bool control = connections.first,
                   data = connections.second;  // clang++ 14 captures no bindings
        const int a = ranks.first, b = ranks.second;
        CAPTURE(control);
        CAPTURE(data);
        CAPTURE(a);
        CAPTURE(b);
        RelayedCluster cluster(3);
        const auto all = failures(cluster, patient, [&, a, b, control, data] {
          cluster.between(a, b).reset(b, control, data);
        });
        check_same(all, -1);
        CHECK(all[0].reason.find(concat({"the connection between ", name(cluster, a), " and ",
                                         name(cluster, b), " broke: "})) == 0);
        CHECK(all[0].reason.find("; other workers hear both") != std::string::npos);
      }
  }

  TEST_CASE("of two ranks, neither blames the other for a reset") {
    for (const auto& [control, data] : {std::pair(true, true), std::pair(false, true)}) {
      RelayedCluster cluster(2);
      const auto all = failures(cluster, patient, [&, control = control, data = data] {
        cluster.relays[0].reset(1, control, data);
      });
      for (const CollectiveFailure& failure : all) {
        CAPTURE(failure.reason);
        CHECK(failure.failed_rank == -1);
        // (A rank that has concluded closes its port.)
        const bool hears_it = failure.reason.find("; both processes live") != std::string::npos;
        const bool is_closed = failure.reason.find("; a process closes calls") != std::string::npos;
        CHECK((hears_it || is_closed));
      }
    }
  }

  TEST_CASE(
      "one direction between two of three ranks is cut: all say the same, and blame no rank") {
    for (const auto way : {Relay::Way::to_port, Relay::Way::from_port}) {
      RelayedCluster cluster(3);
      const auto all = failures(cluster, hasty, [&] { cluster.relays[0].cut(2, way); });
      check_same(all, -1);
      CHECK(all[0].reason.find("the network between " + name(cluster, 0) + " and " +
                               name(cluster, 2) + " is cut") == 0);
    }
  }

  TEST_CASE("of two ranks, both name the one that the other does not hear") {
    for (const auto& [way, unheard] :
         {std::pair(Relay::Way::to_port, 1), std::pair(Relay::Way::from_port, 0)}) {
      RelayedCluster cluster(2);
      const auto all = failures(cluster, hasty, [&, way = way] { cluster.relays[0].cut(1, way); });
      check_same(all, unheard);
      CHECK(all[0].reason == "was silent for more than 1500 ms (CommunicationOptions::timeout)");
    }
  }

  TEST_CASE("a rank whose cable is pulled is named by all, itself included") {
    RelayedCluster cluster(3);
    const auto all = failures(cluster, hasty, [&] {
      for (const int other : {0, 2})
        for (const auto way : {Relay::Way::to_port, Relay::Way::from_port})
          cluster.between(1, other).cut(std::max(1, other), way);
    });
    for (const CollectiveFailure& failure : all) CHECK(failure.failed_rank == 1);
    CHECK(all[0].reason == "was silent for more than 1500 ms (CommunicationOptions::timeout)");
    CHECK(all[2].reason == all[0].reason);
    CHECK(all[1].reason ==
          "hears none of the other workers any more: its network is cut, or all of them hang");
  }
}

#include "lockstep/strategies/one_device.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace lockstep;

TEST_CASE("OneDeviceStrategy: one replica, on the caller's thread") {
  OneDeviceStrategy strategy;
  CHECK(strategy.num_workers() == 1);
  CHECK(strategy.num_replicas_in_sync() == 1);
  CHECK(strategy.is_chief());
  int calls = 0;
  strategy.run([&](OneDeviceStrategy::Replica& replica) {
    ++calls;
    CHECK(replica.local_rank() == 0);
    CHECK(replica.local_size() == 1);
    CHECK(replica.collective().size() == 1);
    replica.team_barrier();
  });
  CHECK(calls == 1);
  CHECK_THROWS_AS(strategy.run([](auto&) { throw std::runtime_error("no"); }), std::runtime_error);
}

TEST_CASE(
    "OneDeviceStrategy: a run within another one belongs into team_lead, as with several "
    "replicas") {
  OneDeviceStrategy strategy;
  int inner_calls = 0;
  const auto inner = [&](OneDeviceStrategy::Replica&) { ++inner_calls; };
  strategy.run([&](OneDeviceStrategy::Replica& replica) {
    CHECK_THROWS_AS(strategy.run(inner), Error);
    replica.team_lead([&] { strategy.run(inner); });
    CHECK_THROWS_AS(strategy.run(inner), Error);
  });
  strategy.run(inner);
  CHECK(inner_calls == 2);
}

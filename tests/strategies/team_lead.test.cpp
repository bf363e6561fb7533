#include "lockstep/strategies/team_lead.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <span>

#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"

using namespace lockstep;

namespace {

/// A user's own replica, which has no team_lead.
struct PlainReplica {
  MirroredStrategy::Replica& real;
  InProcess& collective() { return real.collective(); }
  [[nodiscard]] int local_rank() const { return real.local_rank(); }
  [[nodiscard]] int local_size() const { return real.local_size(); }
  void team_barrier() { real.team_barrier(); }
};
static_assert(Replica<PlainReplica>);

}  // namespace

TEST_CASE("team_lead: the first replica works when all have come, and the others see what it has done") {
  MirroredStrategy strategy({.replicas = 3});
  for (const bool plain : {false, true}) {
    std::atomic<int> come = 0, done = 0, wrong = 0;
    strategy.run([&](MirroredStrategy::Replica& replica) {
      const auto lead = [&] {
        wrong += replica.local_rank() != 0 || come != 3;
        ++done;
      };
      ++come;
      PlainReplica simple{replica};
      if (plain)
        detail::team_lead(simple, lead);
      else
        detail::team_lead(replica, lead);
      wrong += done != 1;
    });
    CHECK(wrong == 0);
  }
  int calls = 0;
  OneDeviceStrategy().run([&](auto& replica) { detail::team_lead(replica, [&] { ++calls; }); });
  CHECK(calls == 1);
}

TEST_CASE("MirroredStrategy: run in team_lead, and after its failure") {
  MirroredStrategy strategy({.replicas = 2});
  std::atomic<int> sum = 0;
  const auto add = [&](MirroredStrategy::Replica& replica) {
    double one = 1;
    replica.collective().all_reduce(std::span(&one, 1));
    sum += static_cast<int>(one);
  };
  strategy.run([&](MirroredStrategy::Replica& replica) {
    replica.team_lead([&] {
      strategy.run(add);
      CHECK_THROWS_WITH(strategy.run([](MirroredStrategy::Replica& inner) {
        if (inner.local_rank() == 1) throw Error("broken");
        inner.team_barrier();
      }),
                        "broken");
      strategy.run(add);
    });
    add(replica);
  });
  CHECK(sum == 3 * 4);
}

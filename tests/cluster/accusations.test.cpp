#include "lockstep/cluster/accusations.hpp"

#include <doctest/doctest.h>

using lockstep::detail::Accusations;
using namespace std::chrono_literals;

namespace {

using Clock = Accusations::Clock;

const Clock::time_point start{1h};

/// Workers that have begun at `start` and met a second later.
Accusations cluster_of(int workers) {
  Accusations accusations(static_cast<std::size_t>(workers));
  for (int worker = 0; worker < workers; ++worker) accusations.began(worker, start);
  for (int worker = 0; worker < workers; ++worker) accusations.met(worker, start + 1s);
  return accusations;
}

/// The hung worker that all others have named in time; -1 if there is none.
int named(Accusations& accusations, Clock::time_point now) {
  const auto hung = accusations.verdict(now + Accusations::time_to_settle);
  return hung ? hung->worker : -1;
}

}  // namespace

TEST_SUITE("accusations") {
  TEST_CASE("of two workers, one accusation is enough, a second later") {
    Accusations accusations = cluster_of(2);
    CHECK_FALSE(accusations.due());
    accusations.lost(0, 1, "was silent", start + 9s);
    CHECK(accusations.due() == start + 10s);
    CHECK_FALSE(accusations.verdict(start + 9900ms));
    const auto hung = accusations.verdict(start + 10s);
    REQUIRE(hung);
    CHECK(hung->worker == 1);
    CHECK(hung->lost_to == 0);
    CHECK(hung->why == "was silent");
    CHECK_FALSE(accusations.due());
    CHECK_FALSE(accusations.verdict(start + 20s));
  }

  TEST_CASE("a worker that ends by itself does not hang, and its successor is not accused") {
    Accusations accusations = cluster_of(2);
    accusations.lost(0, 1, "closed the connection", start + 9s);
    accusations.ended(1);
    CHECK_FALSE(accusations.due());
    accusations.lost(0, 1, "closed the connection", start + 9s);  // the note came late
    CHECK_FALSE(accusations.due());
    accusations.began(1, start + 9s);
    accusations.lost(0, 1, "closed the connection", start + 9s);  // and later still
    CHECK_FALSE(accusations.due());
    accusations.met(0, start + 10s);
    accusations.met(1, start + 10s);
    accusations.lost(0, 1, "was silent", start + 20s);
    CHECK(named(accusations, start + 20s) == 1);
  }

  TEST_CASE("what a worker has said still counts after its end, until it is connected again") {
    Accusations accusations = cluster_of(2);
    accusations.lost(0, 1, "was silent", start + 9s);
    accusations.ended(0);
    accusations.began(0, start + 9s);
    CHECK(named(accusations, start + 9s) == 1);
    accusations = cluster_of(2);
    accusations.lost(0, 1, "was silent", start + 9s);
    accusations.met(0, start + 10s);
    CHECK(named(accusations, start + 10s) == -1);
  }

  TEST_CASE(
      "of several lost workers, the one that most peers name; in a tie, the one that the lowest "
      "rank names") {
    Accusations accusations = cluster_of(5);
    accusations.lost(0, 3, "", start + 9s);
    accusations.lost(1, 4, "", start + 9s);
    accusations.lost(2, 4, "", start + 9s);
    CHECK(named(accusations, start + 9s) == 4);
    accusations.lost(1, 4, "", start + 19s);
    accusations.lost(0, 3, "", start + 19s);
    CHECK(named(accusations, start + 19s) == 3);
    accusations.lost(0, 3, "", start + 29s);
    accusations.lost(0, 4, "", start + 29s);  // the first accusation counts
    CHECK(named(accusations, start + 29s) == 3);
  }

  TEST_CASE("a worker that has itself lost a peer does not hang") {
    Accusations accusations = cluster_of(3);
    accusations.lost(0, 1, "", start + 9s);
    accusations.lost(1, 0, "", start + 9s);
    CHECK(named(accusations, start + 9s) == -1);
    accusations.lost(0, 1, "", start + 19s);
    accusations.lost(1, 2, "", start + 19s);
    CHECK(named(accusations, start + 19s) == 2);
  }

  TEST_CASE(
      "a worker that is late in a start-up may be slow: it is accused when a successor misses it "
      "again") {
    Accusations accusations(2);
    accusations.began(0, start);
    accusations.began(1, start);
    accusations.missed(0, 1, "", start + 300s);
    CHECK_FALSE(accusations.due());
    accusations.ended(0);
    accusations.began(0, start + 300s);
    accusations.missed(0, 1, "", start + 600s);
    CHECK(named(accusations, start + 600s) == 1);
  }
}

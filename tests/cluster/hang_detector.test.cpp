#include "lockstep/cluster/detail/worker_group.hpp"

#include <doctest/doctest.h>

using lockstep::detail::HangDetector;
using namespace std::chrono_literals;

namespace {

using Clock = HangDetector::Clock;

const Clock::time_point start{1h};

/// Workers that have begun at `start` and met a second later.
HangDetector cluster_of(int workers) {
  HangDetector detector(static_cast<std::size_t>(workers));
  for (int worker = 0; worker < workers; ++worker) detector.began(worker, start);
  for (int worker = 0; worker < workers; ++worker) detector.met(worker, start + 1s);
  return detector;
}

/// The hung worker that all others have named in time; -1 if there is none.
int named(HangDetector& detector, Clock::time_point now) {
  const auto hung = detector.verdict(now + HangDetector::time_to_settle);
  return hung ? hung->worker : -1;
}

}  // namespace

TEST_SUITE("hang detector") {
  TEST_CASE("of two workers, one accusation is enough, a second later") {
    HangDetector detector = cluster_of(2);
    CHECK_FALSE(detector.due());
    detector.lost(0, 1, "was silent", start + 9s);
    CHECK(detector.due() == start + 10s);
    CHECK_FALSE(detector.verdict(start + 9900ms));
    const auto hung = detector.verdict(start + 10s);
    REQUIRE(hung);
    CHECK(hung->worker == 1);
    CHECK(hung->lost_to == 0);
    CHECK(hung->why == "was silent");
    CHECK_FALSE(detector.due());
    CHECK_FALSE(detector.verdict(start + 20s));
  }

  TEST_CASE("a worker that ends by itself does not hang, and its successor is not accused") {
    HangDetector detector = cluster_of(2);
    detector.lost(0, 1, "closed the connection", start + 9s);
    detector.ended(1);
    CHECK_FALSE(detector.due());
    detector.lost(0, 1, "closed the connection", start + 9s);  // the note came late
    CHECK_FALSE(detector.due());
    detector.began(1, start + 9s);
    detector.lost(0, 1, "closed the connection", start + 9s);  // and later still
    CHECK_FALSE(detector.due());
    detector.met(0, start + 10s);
    detector.met(1, start + 10s);
    detector.lost(0, 1, "was silent", start + 20s);
    CHECK(named(detector, start + 20s) == 1);
  }

  TEST_CASE("what a worker has said still counts after its end, until it is connected again") {
    HangDetector detector = cluster_of(2);
    detector.lost(0, 1, "was silent", start + 9s);
    detector.ended(0);
    detector.began(0, start + 9s);
    CHECK(named(detector, start + 9s) == 1);
    detector = cluster_of(2);
    detector.lost(0, 1, "was silent", start + 9s);
    detector.met(0, start + 10s);
    CHECK(named(detector, start + 10s) == -1);
  }

  TEST_CASE(
      "of several lost workers, the one that most peers name; in a tie, the one that the lowest "
      "rank names") {
    HangDetector detector = cluster_of(5);
    detector.lost(0, 3, "", start + 9s);
    detector.lost(1, 4, "", start + 9s);
    detector.lost(2, 4, "", start + 9s);
    CHECK(named(detector, start + 9s) == 4);
    detector.lost(1, 4, "", start + 19s);
    detector.lost(0, 3, "", start + 19s);
    CHECK(named(detector, start + 19s) == 3);
    detector.lost(0, 3, "", start + 29s);
    detector.lost(0, 4, "", start + 29s);  // the first accusation counts
    CHECK(named(detector, start + 29s) == 3);
  }

  TEST_CASE("a worker that has itself lost a peer does not hang") {
    HangDetector detector = cluster_of(3);
    detector.lost(0, 1, "", start + 9s);
    detector.lost(1, 0, "", start + 9s);
    CHECK(named(detector, start + 9s) == -1);
    detector.lost(0, 1, "", start + 19s);
    detector.lost(1, 2, "", start + 19s);
    CHECK(named(detector, start + 19s) == 2);
  }

  TEST_CASE(
      "a worker that is late in a start-up may be slow: it is accused when a successor misses it "
      "again") {
    HangDetector detector(2);
    detector.began(0, start);
    detector.began(1, start);
    detector.missed(0, 1, "", start + 300s);
    CHECK_FALSE(detector.due());
    detector.ended(0);
    detector.began(0, start + 300s);
    detector.missed(0, 1, "", start + 600s);
    CHECK(named(detector, start + 600s) == 1);
  }
}

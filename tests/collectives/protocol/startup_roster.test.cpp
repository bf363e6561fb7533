#include "lockstep/collectives/protocol/startup_agreement.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

using namespace lockstep::detail;
using namespace lockstep;
using namespace std::chrono_literals;

TEST_SUITE("start-up roster") {
  const StartupRoster::Clock::time_point now(100s);

  StartupRoster roster_of(int rank) { return {WorkerNames({"a:1", "b:2", "c:3"}), rank}; }

  void connect(StartupRoster & roster, int other) {
    roster.peer(other).connected = true;
    roster.peer(other).heard = now;
  }

  TEST_CASE("those that are not there are named, with what is known of them") {
    StartupRoster roster = roster_of(1);
    CHECK(roster.describe_missing(now) ==
          "worker 0 (a:1): no answer so far; worker 2 (c:3): has not connected yet");
    CHECK(roster.first_missing(now) == 0);
    roster.peer(0).problem = "connection refused";
    roster.peer(2).turned_away = "was turned away";
    CHECK(
        roster.describe_missing(now) ==
        "worker 0 (a:1): connection refused; worker 2 (c:3): has not connected yet; before that it "
        "was turned away");
    connect(roster, 0);
    CHECK(roster.first_missing(now) == 2);
    CHECK_FALSE(roster.all_connected());
    connect(roster, 2);
    CHECK(roster.all_connected());
  }

  TEST_CASE("one that has not answered for three seconds hangs") {
    StartupRoster roster = roster_of(1);
    connect(roster, 0);
    connect(roster, 2);
    CHECK(roster.first_missing(now + 2s) ==
          0);  // rank 0 has not heard from all: that is all there is to know
    CHECK(roster.describe_missing(now + 4s) ==
          "worker 0 (a:1): is connected, but silent since 4 s; worker 2 (c:3): is connected, but "
          "silent since 4 s");
    roster.peer(0).heard = now + 4s;
    CHECK(roster.first_missing(now + 4s) == 2);
  }

  TEST_CASE("many ranks are asked less often, and may be silent for longer") {
    CHECK(roster_of(0).ask_interval() == 1s);
    StartupRoster roster(WorkerNames(std::vector<std::string>(64, "a:1")), 0);
    CHECK(roster.ask_interval() == 5s);
    for (int other = 1; other < 64; ++other) {
      connect(roster, other);
      roster.peer(other).ready = true;
    }
    CHECK(roster.first_missing(now + 14s) == -1);
    CHECK(roster.missing(now + 14s).empty());
    CHECK(roster.first_missing(now + 15s) == 1);
    CHECK(roster.missing(now + 15s).size() == 63);
  }

  TEST_CASE("when all are connected here, the one that others wait for is named") {
    StartupRoster roster = roster_of(0);
    connect(roster, 1);
    connect(roster, 2);
    CHECK(roster.describe_missing(now) ==
          "worker 1 (b:2): is here, but not yet connected to all others; worker 2 (c:3): is here, "
          "but "
          "not yet connected to "
          "all others");
    roster.peer(1).waits_for = 2;
    CHECK(roster.first_missing(now) == 2);
    for (const int nonsense : {-1, 0, 1, 3}) {
      roster.peer(1).waits_for = nonsense;
      CHECK(roster.first_missing(now) == 1);
    }
    roster.peer(1).ready = roster.peer(2).ready = true;
    CHECK(roster.all_ready());
    CHECK(roster.first_missing(now) == -1);
    CHECK(roster.describe_missing(now).empty());
  }

  TEST_CASE("of many ranks, one knows its contacts, and of others what rank 0 says") {
    StartupRoster roster(WorkerNames(std::vector<std::string>(12, "a:1")), 3);
    CHECK(roster.first_missing(now) == 0);
    CHECK(roster.missing(now).size() == 7);  // 0, and 1, 2, 4, 5, 7, 11
    for (const int other : {0, 1, 2, 4, 5, 7}) connect(roster, other);
    CHECK_FALSE(roster.all_connected());
    CHECK(roster.first_missing(now) == 11);
    connect(roster, 11);
    CHECK(roster.all_connected());
    roster.peer(0).waits_for = 9;
    CHECK(roster.first_missing(now) == 9);
    CHECK(roster.describe_missing(now) == "worker 9 (a:1): worker 0 (a:1) waits for it");
    // Which process a rank has met that is no contact is not its concern.
    const auto before = roster.processes();
    roster.peer(6).incarnation = 5;
    CHECK(roster.processes() == before);
    roster.peer(5).incarnation = 5;
    CHECK(roster.processes() != before);
    CHECK(roster.processes() == roster.processes_around(3));
    CHECK(roster.processes_around(6) != roster.processes_around(9));
  }

  TEST_CASE("that a rank cannot be reached is known on all ranks, and forgotten when it can") {
    StartupRoster first = roster_of(0), second = roster_of(1), third = roster_of(2);
    third.peer(1).problem = "its name does not resolve";
    CHECK(third.complaints(0) == "1 2 its name does not resolve\n");
    first.hear_complaints(2, third.complaints(0));
    CHECK(first.describe_missing(now).starts_with(
        "worker 1 (b:2): has not connected yet; worker 2 (c:3) "
        "cannot reach it: its name does not resolve"));
    CHECK(first.complaints(2).empty());
    second.hear_complaints(0, first.complaints(1));
    CHECK(second.describe_missing(now).ends_with(
        "; worker 2 (c:3) cannot reach this worker: its name does not resolve"));
    CHECK(second.timed_out(now, 300ms).reason.find("cannot reach this worker") !=
          std::string::npos);
    connect(first, 1);
    connect(first, 2);
    first.peer(2).waits_for = 1;
    CHECK(first.describe_missing(now).ends_with(
        "worker 1 (b:2): worker 2 (c:3) waits for it, which it "
        "cannot reach: its name does not resolve"));
    connect(third, 1);
    first.hear_complaints(2, third.complaints(0));
    CHECK(first.complaints(1).empty());
    second.hear_complaints(0, first.complaints(1));
    CHECK(second.describe_missing(now).find("resolve") == std::string::npos);
    for (const char* nonsense :
         {"7 2 x\n", "-1 2 x\n", "1\n", "\n\n", "1 1 x\n", "99999999999 1 x", "1 2"})
      second.hear_complaints(0, nonsense);
    second.hear_complaints(0, "0 2 a\x1b[2Jb\n");
    CHECK(second.describe_missing(now).find("cannot reach it: a?[2Jb") != std::string::npos);
  }

  TEST_CASE("when the time is over, the first one is to blame, and all are named") {
    const CollectiveFailure failure = roster_of(1).timed_out(now, 300ms);
    CHECK(failure.failed_rank == 0);
    CHECK(failure.address == "a:1");
    CHECK(failure.reason ==
          "no answer so far; worker 2 (c:3): has not connected yet; the workers must all be there "
          "within 300 ms "
          "(CommunicationOptions::startup_timeout)");
  }
}

TEST_SUITE("start-up claims") {
  const StartupClaims::Clock::time_point now(100s);

  TEST_CASE(
      "one claim ends nothing; one that is made again and again ends the start-up after 2 s") {
    StartupClaims claims(3, 60s);
    for (auto time = 0ms; time < 2000ms; time += 200ms)
      CHECK_FALSE(claims.ends_for_callee(1, 7, now + time));
    CHECK_FALSE(claims.ends_for_callee(2, 7, now + 1900ms));  // another place
    CHECK(claims.ends_for_callee(1, 7, now + 2000ms));
  }

  TEST_CASE("another process, a long silence and a process that fits begin anew") {
    StartupClaims claims(2, 60s);
    CHECK_FALSE(claims.ends_for_callee(1, 7, now));
    SUBCASE("another process") { CHECK_FALSE(claims.ends_for_callee(1, 8, now + 1500ms)); }
    SUBCASE("one that fits") {
      CHECK_FALSE(claims.ends_for_callee(1, 7, now + 1500ms));
      claims.settle(1);
    }
    SUBCASE("silence") {}
    CHECK_FALSE(claims.ends_for_callee(1, 7, now + 2500ms));
    CHECK_FALSE(claims.ends_for_callee(1, 7, now + 4400ms));
    CHECK(claims.ends_for_callee(1, 7, now + 4500ms));
  }

  TEST_CASE(
      "a caller ends later, so that the callee can say that it does, or soon when that has said "
      "so") {
    StartupClaims claims(2, 60s);
    CHECK_FALSE(claims.ends_for_caller(0, 7, true, now));  // a verdict at once is no verdict
    CHECK_FALSE(claims.ends_for_caller(0, 7, true, now + 900ms));
    CHECK_FALSE(claims.ends_for_caller(0, 7, false, now + 2000ms));
    CHECK(claims.ends_for_caller(0, 7, true, now + 2000ms));
    CHECK_FALSE(claims.ends_for_caller(0, 7, false, now + 3900ms));
    CHECK(claims.ends_for_caller(0, 7, false, now + 4000ms));
  }

  TEST_CASE("a short start-up has short claims") {
    StartupClaims claims(2, 1s);
    CHECK_FALSE(claims.ends_for_callee(1, 7, now));
    CHECK(claims.ends_for_callee(1, 7, now + 250ms));
  }
}

namespace {

struct Connection {
  std::uint64_t incarnation;
};
using Pointer = std::shared_ptr<Connection>;
using Place = StartupPlace<Pointer>;

Pointer of(std::uint64_t incarnation) {
  return std::make_shared<Connection>(Connection{incarnation});
}

}  // namespace

TEST_SUITE("start-up place") {
  TEST_CASE("a connection replaces the one before it, and all of another process") {
    Place place(3);
    std::vector<std::pair<std::size_t, Pointer>> dropped;
    const auto put = [&](std::size_t link, const Pointer& connection) {
      dropped.clear();
      place.put(link, connection,
                [&](std::size_t at, const Pointer& former) { dropped.emplace_back(at, former); });
    };
    const Pointer control = of(1), data = of(1);
    put(0, control);
    put(1, data);
    CHECK(dropped.empty());
    CHECK_FALSE(place.is_complete());
    put(2, of(1));
    CHECK(place.is_complete());
    CHECK(place.control() == control);

    const Pointer again = of(1);
    put(1, again);
    CHECK(dropped == std::vector{std::pair(std::size_t{1}, data)});
    put(0, of(2));
    CHECK(dropped.size() == 3);
    CHECK(dropped[0] == std::pair(std::size_t{0}, control));
    CHECK(dropped[1] == std::pair(std::size_t{1}, again));
    CHECK(place.links[1] == nullptr);
    CHECK_FALSE(place.is_complete());
  }

  TEST_CASE("a guest prevails when the older process is gone or silent; two that live are twins") {
    Place place(2);
    CHECK_FALSE(place.is_anothers(1));
    CHECK(place.contest(1, true, 0s) == Place::Contest::prevails);
    place.put(0, of(1), [](std::size_t, const Pointer&) {});
    CHECK_FALSE(place.is_anothers(1));
    CHECK(place.is_anothers(2));
    CHECK(place.contest(1, true, 0s) == Place::Contest::prevails);
    CHECK(place.contest(2, true, 0s) == Place::Contest::twins);
    CHECK(place.contest(2, false, 1s) == Place::Contest::goes_on);
    CHECK(place.contest(2, false, 2s) == Place::Contest::prevails);
  }
}

#include "lockstep/collectives/protocol/startup_agreement.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace lockstep;
using namespace lockstep::detail;
using namespace std::chrono_literals;
using Type = ControlFrame::Type;
using Taken = StartupAgreement::Taken;

namespace {

std::string bytes_of(const ControlFrame& frame, const std::string& text = {}) {
  const FrameBytes bytes = frame.encode();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + text;
}
/// Ready and go are said of the processes that all of these tests' workers know.
ControlFrame frame_of(Type type) {
  const StartupRoster roster(WorkerNames({"a:1", "b:2", "c:3"}), 0);
  return type == Type::ready || type == Type::go ? StartupAgreement::about(type, roster.processes())
                                                 : ControlFrame{.type = type};
}
std::string bytes_of(Type type) { return bytes_of(frame_of(type)); }

const StartupRoster::Clock::time_point now(100s);

/// One of three workers (or more), and what it has sent.
struct Worker {
  explicit Worker(int rank, std::vector<std::string> addresses = {"a:1", "b:2", "c:3"})
      : roster(WorkerNames(std::move(addresses)), rank),
        agreement(roster, [this](int to, const ControlFrame& frame, std::string_view) {
          sent.emplace_back(to, frame);
        }) {}

  void connect(int other) {
    roster.peer(other).connected = true;
    agreement.begin(other, now);
    agreement.consider();
  }
  Taken take(int from, const std::string& bytes) {
    const Taken taken = agreement.take(from, bytes, now);
    agreement.consider();
    return taken;
  }

  StartupRoster roster;
  std::vector<std::pair<int, ControlFrame>> sent;
  StartupAgreement agreement;
};

}  // namespace

TEST_SUITE("start-up agreement") {
  TEST_CASE("rank 0 says go when all others are ready") {
    Worker chief(0);
    chief.connect(1);
    CHECK(chief.take(1, bytes_of(Type::ready)) == Taken::all);
    chief.connect(2);
    CHECK_FALSE(chief.agreement.is_reached());
    CHECK(chief.sent.empty());
    CHECK(chief.take(2, bytes_of(Type::ready)) == Taken::all);
    CHECK(chief.agreement.is_reached());
    CHECK(chief.sent ==
          std::vector{std::pair(1, frame_of(Type::go)), std::pair(2, frame_of(Type::go))});
  }

  TEST_CASE(
      "another rank is ready when it is connected to all, says so once, and goes when rank 0 says "
      "so") {
    Worker worker(1);
    worker.connect(0);
    CHECK(worker.sent.empty());
    worker.connect(2);
    worker.agreement.consider();
    CHECK(worker.sent == std::vector{std::pair(0, frame_of(Type::ready))});
    CHECK(worker.take(2, bytes_of(Type::go)) == Taken::all);  // only rank 0 may say go
    CHECK_FALSE(worker.agreement.is_reached());
    CHECK(worker.take(0, bytes_of(Type::go)) == Taken::enough);
    CHECK(worker.agreement.is_reached());
  }

  TEST_CASE("what follows go stays for later, also a part of it") {
    Worker worker(1);
    worker.connect(0);
    worker.connect(2);
    const std::string later = bytes_of(Type::goodbye) + bytes_of(Type::probe).substr(0, 7);
    CHECK(worker.take(2, later) == Taken::all);
    CHECK(worker.take(0, bytes_of(Type::go) + later) == Taken::enough);
    for (const int other : {0, 2}) {
      ControlInbox& inbox = worker.agreement.inbox(other);
      REQUIRE(inbox.front());
      CHECK(inbox.front()->frame.type == Type::goodbye);
      inbox.pop();
      CHECK_FALSE(inbox.front());
      inbox.append(bytes_of(Type::probe).substr(7));
      CHECK(inbox.front()->frame.type == Type::probe);
    }
  }

  TEST_CASE("rank 0 that is lost after go, and comes again, is told again") {
    Worker worker(1);
    worker.connect(0);
    CHECK(worker.take(0, bytes_of(Type::go)) == Taken::all);
    worker.agreement.lose(0);
    worker.roster.peer(0).connected = false;
    worker.connect(2);
    worker.connect(0);
    CHECK(worker.sent == std::vector{std::pair(0, frame_of(Type::ready))});
    CHECK_FALSE(worker.agreement.is_reached());
  }

  TEST_CASE("rank 0 that gives up after go is heard by who has lost another rank meanwhile") {
    Worker worker(1);
    worker.connect(0);
    const std::string gives_up =
        bytes_of({.type = Type::abort, .value = 2, .extra = 138, .length = 4}, "lost");
    CHECK(worker.take(0, bytes_of(Type::go) + gives_up) == Taken::enough);
    CHECK_FALSE(worker.agreement.is_reached());
    REQUIRE(worker.agreement.aborted());
    CHECK(worker.agreement.aborted()->failed_rank == 2);
  }

  TEST_CASE("an answer to an earlier question says nothing about now") {
    Worker chief(0);
    chief.connect(1);
    const auto answer = [](int question) {
      return bytes_of({.type = Type::waiting, .value = 2, .extra = question});
    };
    chief.agreement.ask(1);
    chief.agreement.ask_whether_it_lives(1);
    CHECK(chief.sent.back().second == ControlFrame{.type = Type::probe, .extra = 2});
    CHECK(chief.take(1, answer(1)) == Taken::all);
    CHECK_FALSE(chief.roster.peer(1).answered);
    CHECK(chief.take(1, answer(2)) == Taken::all);
    CHECK(chief.roster.peer(1).answered);
  }

  TEST_CASE("a report is heard behind what is for later") {
    Worker worker(1);
    worker.connect(0);
    CHECK(worker.take(0, bytes_of(Type::go) + bytes_of(Type::doubt) +
                             bytes_of({.type = Type::abort, .value = 2, .extra = 138, .length = 4},
                                      "lost")) == Taken::enough);
    REQUIRE(worker.agreement.aborted());
    CHECK(worker.agreement.aborted()->failed_rank == 2);
  }

  TEST_CASE("questions are answered with the first that is missing, and answers are noted") {
    Worker chief(0);
    chief.connect(1);
    CHECK(chief.take(1, bytes_of(Type::probe)) == Taken::all);
    CHECK(chief.sent == std::vector{std::pair(1, ControlFrame{.type = Type::waiting, .value = 2})});
    CHECK(chief.take(1, bytes_of({.type = Type::waiting, .value = 2})) == Taken::all);
    CHECK(chief.roster.peer(1).answered);
    CHECK(chief.roster.peer(1).waits_for == 2);
    CHECK(chief.roster.peer(1).heard == now);
  }

  TEST_CASE("a report ends it, with whom the peer blames, or the peer itself") {
    for (const auto& [blamed, failed] : {std::pair{2, 2}, std::pair{-1, 1}, std::pair{77, 1}}) {
      Worker chief(0);
      chief.connect(1);
      CHECK(chief.take(1, bytes_of({.type = Type::abort, .value = blamed, .extra = 2, .length = 3},
                                   "b\nd")) == Taken::enough);
      REQUIRE(chief.agreement.aborted());
      CHECK(chief.agreement.aborted()->failed_rank == failed);
      CHECK(chief.agreement.aborted()->reason == "b?d");
      CHECK(chief.agreement.aborted()->code == ExitCode::usage);
    }
    const Worker worker(1);
    CHECK(worker.agreement.report(ConfigurationError("x"), "x") ==
          ControlFrame{.type = Type::abort,
                       .value = 1,
                       .extra = static_cast<int>(ExitCode::usage),
                       .length = 1});
    CollectiveFailure failure;
    failure.failed_rank = 2;
    CHECK(worker.agreement.report(CollectiveError(failure), {}).value == 2);
  }

  TEST_CASE("a process that is started again in the middle is never taken for the former one") {
    Worker chief(0), worker(2);
    const auto meet = [](Worker& one, int other, std::uint64_t incarnation) {
      one.roster.peer(other).incarnation = incarnation;
      one.connect(other);
    };
    meet(chief, 1, 7);
    meet(chief, 2, 0);
    meet(worker, 0, 0);
    meet(worker, 1, 7);
    REQUIRE(worker.sent.size() == 1);
    CHECK(chief.take(2, bytes_of(worker.sent[0].second)) == Taken::all);
    CHECK(chief.take(1, bytes_of(worker.sent[0].second)) == Taken::all);
    CHECK(chief.agreement.is_reached());
    const std::string go = bytes_of(chief.sent.back().second);

    // Rank 1 is killed and has connected to rank 2 again before go comes there.
    meet(worker, 1, 8);
    CHECK(worker.take(0, go) == Taken::all);
    CHECK_FALSE(worker.agreement.is_reached());
    CHECK(worker.sent.size() == 2);  // it is ready, with others
    CHECK(worker.sent[0].second != worker.sent[1].second);

    // The other way round: rank 0 waits until rank 2 has met the new process too.
    Worker second(0);
    meet(second, 1, 7);
    meet(second, 2, 0);
    CHECK(second.take(2, bytes_of(worker.sent[0].second)) == Taken::all);
    meet(second, 1, 8);
    CHECK(second.take(1, bytes_of(worker.sent[1].second)) == Taken::all);
    CHECK_FALSE(second.agreement.is_reached());
    CHECK(second.roster.first_missing(now) == 2);
    CHECK(second.take(2, bytes_of(worker.sent[1].second)) == Taken::all);
    CHECK(second.agreement.is_reached());
    CHECK(worker.take(0, bytes_of(second.sent.back().second)) == Taken::enough);
    CHECK(worker.agreement.is_reached());
  }

  TEST_CASE("of many ranks, each is ready when its contacts are there, and rank 0 knows which") {
    const std::vector<std::string> addresses(12, "a:1");
    Worker chief(0, addresses);
    std::vector<std::unique_ptr<Worker>> workers(12);
    const auto incarnation = [](int rank) { return static_cast<std::uint64_t>(100 + rank); };
    chief.roster.peer(0).incarnation = incarnation(0);
    for (int rank = 1; rank < 12; ++rank) {
      workers[static_cast<std::size_t>(rank)] = std::make_unique<Worker>(rank, addresses);
      Worker& worker = *workers[static_cast<std::size_t>(rank)];
      worker.roster.peer(rank).incarnation = incarnation(rank);
      for (int other = 0; other < 12; ++other)
        if (worker.roster.is_contact(other)) {
          worker.roster.peer(other).incarnation = incarnation(other);
          worker.connect(other);
        }
      REQUIRE(worker.sent.size() == 1);
      chief.roster.peer(rank).incarnation = incarnation(rank);
      chief.connect(rank);
      if (rank != 6) (void)chief.take(rank, bytes_of(worker.sent[0].second));
    }
    CHECK_FALSE(chief.agreement.is_reached());
    CHECK(chief.roster.first_missing(now) == 6);
    Worker& last = *workers[6];
    SUBCASE("all go") {
      (void)chief.take(6, bytes_of(last.sent[0].second));
      CHECK(chief.agreement.is_reached());
      REQUIRE(chief.sent.size() == 11);
      for (const auto& [to, frame] : chief.sent) {
        Worker& worker = *workers[static_cast<std::size_t>(to)];
        CHECK(worker.take(0, bytes_of(frame)) == Taken::enough);
        CHECK(worker.agreement.is_reached());
      }
    }
    SUBCASE("one that has met another process than rank 0 has is waited for") {
      last.roster.peer(7).incarnation = 7;  // which has ended since
      last.agreement.consider();
      (void)chief.take(6, bytes_of(last.sent.back().second));
      CHECK_FALSE(chief.agreement.is_reached());
      last.roster.peer(7).incarnation = incarnation(7);
      last.agreement.consider();
      (void)chief.take(6, bytes_of(last.sent.back().second));
      CHECK(chief.agreement.is_reached());
    }
  }

  TEST_CASE("a contact that is lost when rank 0 says go has a moment to come again, and is named") {
    Worker worker(1);
    worker.connect(0);
    worker.connect(2);
    const auto lose = [&](int other) {
      worker.agreement.lose(other);
      worker.roster.peer(other).connected = false;
    };
    const auto names_2_when_due = [&] {
      const auto due = worker.agreement.due();
      CHECK(due - now == 3s);
      worker.agreement.look_for_lost(due - 1ms);
      CHECK_FALSE(worker.agreement.aborted());
      worker.agreement.look_for_lost(due);
      REQUIRE(worker.agreement.aborted());
      CHECK(worker.agreement.aborted()->failed_rank == 2);
      CHECK(worker.agreement.aborted()->address == "c:3");
      CHECK(worker.agreement.aborted()->code == ExitCode::lost_peer);
      CHECK_FALSE(worker.agreement.is_reached());
      CHECK(worker.agreement.is_news_for(0));
    };
    CHECK(worker.agreement.due() == StartupRoster::Clock::time_point::max());
    SUBCASE("lost before") {
      lose(2);
      CHECK(worker.take(0, bytes_of(Type::go)) == Taken::all);
      SUBCASE("for good") { names_2_when_due(); }
      SUBCASE("it comes again") {
        worker.connect(2);
        CHECK(worker.agreement.is_reached());
        worker.agreement.look_for_lost(now + 1h);
        CHECK_FALSE(worker.agreement.aborted());
      }
      SUBCASE("another process comes") {
        worker.roster.peer(2).incarnation = 8;
        worker.connect(2);
        names_2_when_due();
      }
      SUBCASE("rank 0 is lost as well, and no one is bound by what it has said") {
        lose(0);
        worker.agreement.look_for_lost(now + 1h);
        CHECK_FALSE(worker.agreement.aborted());
      }
    }
    SUBCASE("another process has come before") {
      worker.roster.peer(2).incarnation = 8;
      worker.connect(2);
      CHECK(worker.take(0, bytes_of(Type::go)) == Taken::all);
      names_2_when_due();
    }
    SUBCASE("all are there, but a guest contends for a place") {
      CHECK(worker.agreement.take(0, bytes_of(Type::go), now) == Taken::enough);
      worker.agreement.look_for_lost(now + 3s);
      CHECK_FALSE(worker.agreement.aborted());
      CHECK(worker.agreement.due() - now == 6s);
      worker.agreement.consider();
      CHECK(worker.agreement.is_reached());
    }
  }

  TEST_CASE("a report is news for all contacts but its sender, which may not know them yet") {
    Worker worker(3, std::vector<std::string>(12, "a:1"));
    for (int other = 0; other < 12; ++other) CHECK_FALSE(worker.agreement.is_news_for(other));
    worker.connect(4);
    CHECK(worker.take(4, bytes_of({.type = Type::abort, .value = 4})) == Taken::enough);
    for (const int other : {0, 1, 2, 5, 7, 11}) CHECK(worker.agreement.is_news_for(other));
    for (const int other : {3, 4, 6, 8, 9, 10}) CHECK_FALSE(worker.agreement.is_news_for(other));
    // One that hears it again, in other words, stays with the first.
    CHECK(worker.take(5, bytes_of({.type = Type::abort, .value = 6})) == Taken::enough);
    CHECK(worker.agreement.aborted()->failed_rank == 4);
    CHECK_FALSE(worker.agreement.is_news_for(4));
    CHECK(worker.agreement.is_news_for(5));
    Worker few(1);
    few.connect(0);
    (void)few.take(0, bytes_of({.type = Type::abort, .value = 0}));
    CHECK(few.agreement.is_news_for(2));
    CHECK_FALSE(few.agreement.is_news_for(0));
  }

  TEST_CASE("something else is garbage") {
    Worker chief(0);
    chief.connect(1);
    CHECK(chief.take(1, bytes_of(Type::probe).substr(0, 8)) == Taken::all);
    CHECK(chief.take(1, bytes_of(Type::probe).substr(8)) == Taken::all);
    CHECK(chief.take(1, std::string(16, 'x')) == Taken::garbage);
  }
}

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
          "worker 0 (a:1): is connected, but has been silent for 4 s; worker 2 (c:3): is "
          "connected, but "
          "has been silent for 4 s");
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

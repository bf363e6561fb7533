#include "lockstep/collectives/protocol/startup_agreement.hpp"

#include <doctest/doctest.h>

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
std::string bytes_of(Type type) { return bytes_of(ControlFrame{.type = type}); }

const StartupRoster::Clock::time_point now(100s);

/// One of three workers, and what it has sent.
struct Worker {
  explicit Worker(int rank)
      : roster({"a:1", "b:2", "c:3"}, rank),
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
    CHECK(chief.sent == std::vector{std::pair(1, ControlFrame{.type = Type::go}),
                                    std::pair(2, ControlFrame{.type = Type::go})});
  }

  TEST_CASE(
      "another rank is ready when it is connected to all, says so once, and goes when rank 0 says "
      "so") {
    Worker worker(1);
    worker.connect(0);
    CHECK(worker.sent.empty());
    worker.connect(2);
    worker.agreement.consider();
    CHECK(worker.sent == std::vector{std::pair(0, ControlFrame{.type = Type::ready})});
    CHECK(worker.take(2, bytes_of(Type::go)) == Taken::enough);  // who is he to say so
    CHECK_FALSE(worker.agreement.is_reached());
    CHECK(worker.take(0, bytes_of(Type::go)) == Taken::enough);
    CHECK(worker.agreement.is_reached());
  }

  TEST_CASE("what follows go stays for later, also a part of it") {
    Worker worker(1);
    worker.connect(0);
    worker.connect(2);
    const std::string later = bytes_of(Type::goodbye) + bytes_of(Type::probe).substr(0, 7);
    CHECK(worker.take(2, later) == Taken::enough);
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
    CHECK(worker.sent == std::vector{std::pair(0, ControlFrame{.type = Type::ready})});
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

  TEST_CASE("something else is garbage") {
    Worker chief(0);
    chief.connect(1);
    CHECK(chief.take(1, bytes_of(Type::probe).substr(0, 8)) == Taken::all);
    CHECK(chief.take(1, bytes_of(Type::probe).substr(8)) == Taken::all);
    CHECK(chief.take(1, std::string(16, 'x')) == Taken::garbage);
  }
}

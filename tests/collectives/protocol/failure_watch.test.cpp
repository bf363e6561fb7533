#include "lockstep/collectives/protocol/failure_watch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using namespace lockstep::detail;
using namespace lockstep;
using namespace std::chrono_literals;
using lockstep::detail::FailureCause;

using Type = ControlFrame::Type;

namespace {

const FailureWatch::Clock::time_point now(100s);

std::string bytes_of(const ControlFrame& frame, const std::string& text = {}) {
  const FrameBytes bytes = frame.encode();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + text;
}

/// Rank 0 of three, and what it has sent.
struct Watcher {
  const WorkerNames names{{"a:1", "b:2", "c:3"}};
  ActivityBoard board;
  FailureCause cause;
  std::vector<std::pair<int, Type>> sent;
  FailureWatch watch{names, 0, board, cause,
                     [this](int to, const ControlFrame& frame, std::string_view) {
                       sent.emplace_back(to, frame.type);
                     }};

  [[nodiscard]] bool has_told(Type type) const {
    for (const int to : {1, 2})
      if (std::find(sent.begin(), sent.end(), std::pair(to, type)) == sent.end()) return false;
    return true;
  }
};

}  // namespace

// (What several ranks conclude together: simulated_work.test.cpp.)
TEST_SUITE("failure watch") {
  TEST_CASE("a report becomes the cause, with the address, and is told once") {
    Watcher w;
    CHECK_FALSE(w.watch.conclude(now));
    const ControlFrame abort{.type = Type::abort, .value = 2, .extra = 138, .length = 4};
    CHECK_FALSE(w.watch.take(1, bytes_of(abort, "lost"), now));
    CHECK(w.watch.has_report());
    CHECK_FALSE(w.watch.lose(1, 0, now));  // reports come first
    CHECK(w.watch.conclude(now));
    CHECK(w.cause.get().failed_rank == 2);
    CHECK(w.cause.get().address == "c:3");
    CHECK(w.cause.get().reason == "lost");
    CHECK_FALSE(w.watch.conclude(now));
    CHECK(w.watch.due() == FailureWatch::Clock::time_point::max());
    CollectiveFailure later;
    later.failed_rank = 1;
    CHECK(w.watch.settle(later).failed_rank == 2);
    CHECK(std::count(w.sent.begin(), w.sent.end(), std::pair(1, Type::abort)) == 1);
  }

  TEST_CASE("garbage is a failure of its sender; a goodbye is news, and its end is no loss") {
    Watcher w;
    CHECK(w.watch.take(1, bytes_of({.type = Type::goodbye}), now));
    CHECK_FALSE(w.watch.take(1, {}, now));
    CHECK_FALSE(w.watch.lose(1, 0, now));
    CHECK(w.sent.empty());
    CHECK(w.watch.take(2, std::string(16, 'x'), now));
    CHECK(w.cause.get().failed_rank == 2);
    CHECK(w.has_told(Type::abort));
  }

  TEST_CASE("a loss makes all ranks ask each other; a probe may look for the process meanwhile") {
    Watcher w;
    CHECK(w.watch.lose(2, 0, now));
    w.watch.look_for(2, true);
    CHECK(w.sent[0] == std::pair(1, Type::doubt));
    CHECK(w.watch.due() < FailureWatch::Clock::time_point::max());
    w.watch.found(2, PeerEvidence::Process::ended);
    CHECK_FALSE(w.watch.take(
        1, bytes_of({.type = Type::vote, .value = 1, .extra = 1, .length = 3}, "hhc"), now));
    CHECK(w.watch.conclude(now));
    CHECK(w.cause.get().failed_rank == 2);
    CHECK(w.cause.get().reason == "closed the connection; its process has ended");
  }
}

TEST_SUITE("failure cause") {
  TEST_CASE("the first one counts, whichever thread sets it") {
    FailureCause cause;
    CHECK_FALSE(cause.is_set());
    std::vector<std::string> returned(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < returned.size(); ++i)
      threads.emplace_back([&, i] {
        CollectiveFailure failure;
        failure.reason = std::to_string(i);
        returned[i] = cause.set(failure).reason;
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(cause.is_set());
    CHECK(returned == std::vector<std::string>(4, cause.get().reason));
  }
}

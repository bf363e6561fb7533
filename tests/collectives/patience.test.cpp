#include "lockstep/collectives/patience.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace lockstep;
using namespace lockstep::detail;
using namespace std::chrono_literals;

namespace {

/// Rank 0 of three waits, on a clock of its own.
struct Wait {
  explicit Wait(std::chrono::milliseconds timeout)
      : channel(0, 3, [this](int to, const ControlFrame&, std::string_view) { asked.push_back(to); }),
        patience(channel, {0, Operation::all_reduce, timeout}, {}) {}

  Patience::Advice at(std::chrono::milliseconds now, int receiving = 1, int sending = -1) {
    return patience.next(receiving, sending, Patience::Clock::time_point(now));
  }
  void hear(int from, ControlFrame::Type type, int value = -1) {
    const FrameBytes bytes = ControlFrame{.type = type, .value = value}.encode();
    REQUIRE(channel.take(from, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  }

  std::vector<int> asked;
  ControlChannel channel;
  Patience patience;
};

}  // namespace

TEST_SUITE("patience") {
  TEST_CASE("both are asked in the middle of the time, and the one that is silent is given up at its end") {
    Wait wait(3s);
    CHECK(wait.at(0s, 1, 2).sleep == 1500ms);
    CHECK(wait.asked.empty());
    CHECK(wait.at(1500ms, 1, 2).sleep == 1500ms);
    CHECK(wait.asked == std::vector{1, 2});
    wait.hear(1, ControlFrame::Type::waiting, 2);
    CHECK_FALSE(wait.at(2999ms, 1, 2).failure);
    CHECK(wait.asked.size() == 2);  // once
    const auto advice = wait.at(3000ms, 1, 2);
    REQUIRE(advice.failure);
    CHECK(advice.failure->failed_rank == 2);
    CHECK(advice.failure->reason == "was silent for more than 3000 ms (CommunicationOptions::timeout)");
    CHECK(advice.failure->code == ExitCode::lost_peer);
  }

  TEST_CASE("whoever answers gets twice the time") {
    Wait wait(3s);
    (void)wait.at(1500ms);
    wait.hear(1, ControlFrame::Type::waiting, 2);
    CHECK_FALSE(wait.at(5999ms).failure);
    const auto advice = wait.at(6000ms);
    REQUIRE(advice.failure);
    CHECK(advice.failure->failed_rank == 1);
    CHECK(
        advice.failure->reason ==
        "kept rank 0 in all_reduce waiting for 6000 ms (CommunicationOptions::timeout is 3000 ms), while it waited for "
        "rank 2 itself");
  }

  TEST_CASE("each move begins it anew") {
    Wait wait(3s);
    (void)wait.at(2900ms);
    wait.patience.restart(Patience::Clock::time_point(2900ms));
    CHECK_FALSE(wait.at(5800ms).failure);
    CHECK(wait.at(5900ms).failure);
  }

  TEST_CASE("every five seconds, the one that does not answer is to be named") {
    Wait wait(30s);
    CHECK(wait.at(0s).sleep == 4s);
    CHECK(wait.at(4s).sleep == 1s);
    CHECK(wait.asked.size() == 1);
    wait.hear(1, ControlFrame::Type::waiting, 2);
    CHECK(wait.at(5s).stalled == -1);  // it waits itself
    (void)wait.at(9s);
    CHECK(wait.asked.size() == 2);
    const auto advice = wait.at(10s);
    CHECK(advice.stalled == 1);
    CHECK(advice.idle == 10s);
    CHECK(wait.at(10001ms).stalled == -1);
  }

  TEST_CASE("for one that has come to its end, a little while longer, for what is on its way") {
    Wait wait(30s);
    (void)wait.at(3s);
    wait.hear(1, ControlFrame::Type::goodbye);
    CHECK_FALSE(wait.at(3s).failure);
    CHECK_FALSE(wait.at(7999ms).failure);
    const auto advice = wait.at(8s);
    REQUIRE(advice.failure);
    CHECK(advice.failure->reason.find("came to its end while rank 0 in all_reduce still waits for it") == 0);
    CHECK(advice.failure->code == ExitCode::failure);
  }

  TEST_CASE("who asks this rank learns for whom it waits") {
    Wait wait(3s);
    (void)wait.at(0s, -1, 2);
    wait.asked.clear();
    wait.hear(1, ControlFrame::Type::probe);
    CHECK(wait.asked == std::vector{1});
  }
}

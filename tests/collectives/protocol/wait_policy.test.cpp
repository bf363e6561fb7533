#include "lockstep/collectives/protocol/wait_policy.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace lockstep;
using namespace lockstep::detail;
using namespace std::chrono_literals;

namespace {

using Milliseconds = std::chrono::milliseconds;

/// Rank 0 of four waits, on a clock of its own.
struct Wait {
  explicit Wait(Milliseconds timeout, Milliseconds progress_limit = 600s, bool at_end = false)
      : channel(0, 4, board,
                [this](int to, const ControlFrame&, std::string_view) { asked.push_back(to); }),
        patience({0, "in all_reduce", timeout, progress_limit, names, &board, at_end}, time(0s)) {}

  static WaitPolicy::Clock::time_point time(Milliseconds now) {
    return WaitPolicy::Clock::time_point(1h + now);
  }
  WaitPolicy::Advice at(Milliseconds now, int receiving = 1, int sending = -1) {
    return patience.look(channel, receiving, sending, time(now));
  }
  void hear(int from, Milliseconds now, ControlFrame::Type type, int value = -1,
            const std::string& text = {}) {
    const FrameBytes bytes = ControlFrame{.type = type,
                                          .value = value,
                                          .extra = channel.peer(from).questions,
                                          .length = static_cast<std::uint32_t>(text.size())}
                                 .encode();
    const std::string all =
        std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + text;
    REQUIRE(channel.take(from, all, time(now)));
  }
  void answer(int from, Milliseconds now, int waits_for = -1, const std::string& activity = {}) {
    hear(from, now, ControlFrame::Type::waiting, waits_for, activity);
  }

  std::vector<int> asked;
  WorkerNames names{{"a:1", "b:2", "c:3", "d:4"}};
  ActivityBoard board;
  ControlChannel channel;
  WaitPolicy patience;
};

}  // namespace

TEST_SUITE("wait policy") {
  TEST_CASE("in a short wait no rank is asked") {
    Wait wait(30s);
    CHECK_FALSE(wait.patience.is_due(Wait::time(999ms)));
    CHECK(wait.patience.left(Wait::time(999ms)) == 1ms);
    CHECK(wait.patience.is_due(Wait::time(1s)));
    Wait brief(300ms);
    CHECK(brief.patience.left(Wait::time(0s)) == 75ms);
  }

  TEST_CASE(
      "both are asked again and again, and the one that is silent is given up after the timeout") {
    Wait wait(3s);
    for (const Milliseconds now : {750ms, 1500ms, 2250ms}) {
      wait.asked.clear();
      CHECK_FALSE(wait.at(now, 1, 2).failure);
      CHECK(wait.asked.at(0) == 1);
      CHECK(wait.asked.at(1) == 2);
      wait.answer(1, now);
    }
    CHECK(wait.patience.left(Wait::time(2250ms)) == 750ms);
    const auto advice = wait.at(3000ms, 1, 2);
    REQUIRE(advice.failure);
    CHECK(advice.is_silence);
    CHECK(advice.failure->failed_rank == 2);
    CHECK(advice.failure->reason ==
          "was silent for more than 3000 ms (CommunicationOptions::timeout)");
    CHECK(advice.failure->code == ExitCode::lost_peer);
  }

  TEST_CASE("silence counts from the last word, and not from the begin of the wait") {
    Wait wait(3s);
    for (Milliseconds now = 750ms; now <= 30s; now += 750ms) {
      CHECK_FALSE(wait.at(now).failure);
      wait.answer(1, now);
    }
    for (Milliseconds now = 30750ms; now < 33s; now += 750ms) CHECK_FALSE(wait.at(now).failure);
    CHECK_FALSE(wait.at(32999ms).failure);
    CHECK(wait.at(33s).is_silence);
  }

  TEST_CASE("what the kernel takes is no word of the peer") {
    Wait wait(3s);
    for (Milliseconds now = 750ms; now < 3s; now += 750ms) {
      wait.patience.moved(Wait::time(now), false);
      CHECK_FALSE(wait.at(now, -1, 1).failure);
    }
    CHECK(wait.at(3s, -1, 1).is_silence);
    Wait receiving(3s);
    (void)receiving.at(750ms);
    receiving.patience.moved(Wait::time(2900ms), true);
    CHECK_FALSE(receiving.at(5800ms).failure);
    CHECK(receiving.at(5900ms).is_silence);
  }

  TEST_CASE("a rank that was not asked for a long time has not been silent") {
    Wait wait(3s, 24h);  // was busy itself, or its process was stopped
    CHECK_FALSE(wait.at(1h).failure);
    CHECK(wait.asked == std::vector{1});
    CHECK_FALSE(wait.at(1h + 1s).failure);
    CHECK(wait.at(1h + 3s).is_silence);
  }

  TEST_CASE("a rank that answers has more time") {
    Wait wait(3s, 10s);
    for (Milliseconds now = 500ms; now < 10s; now += 500ms) {
      CHECK_FALSE(wait.at(now).failure);
      wait.answer(1, now, -1, "fit, epoch 3, on_epoch_end of SaveImages");
    }
    const auto advice = wait.at(10s);
    REQUIRE(advice.failure);
    CHECK_FALSE(advice.is_silence);
    CHECK(advice.failure->failed_rank == 1);
    CHECK(advice.failure->code == ExitCode::lost_peer);
    CHECK(advice.failure->reason ==
          "kept others waiting for more than 10000 ms (CommunicationOptions::progress_timeout), "
          "although it is alive: "
          "fit, epoch 3, on_epoch_end of SaveImages");
  }

  TEST_CASE("each move begins that anew") {
    Wait wait(3s, 10s);
    const auto until = [&](Milliseconds begin, Milliseconds end) {
      for (Milliseconds now = begin; now < end; now += 500ms) {
        CHECK_FALSE(wait.at(now).failure);
        wait.answer(1, now);
      }
    };
    until(500ms, 9s);
    wait.patience.moved(Wait::time(9s), true);
    until(9s, 19s);
    CHECK(wait.at(19s).failure);
  }

  TEST_CASE("every five seconds there is a report: what the rank is doing, or that it is silent") {
    Wait wait(30s);
    CHECK(wait.at(1s).report.empty());
    wait.answer(1, 4s, -1, "fit, epoch 3, step 17, on_epoch_end of SaveImages");
    CHECK(wait.at(5s).report ==
          "worker 0 in all_reduce has waited 5 s for worker 1 (b:2), which is alive: fit, epoch 3, "
          "step 17, on_epoch_end of "
          "SaveImages; it counts as lost after 600 s (CommunicationOptions::progress_timeout)");
    CHECK(wait.at(6s).report.empty());
    CHECK(wait.patience.left(Wait::time(6s)) == 1s);
    CHECK(wait.at(9500ms).report.empty());
    CHECK(wait.patience.left(Wait::time(9500ms)) == 500ms);
    CHECK(wait.at(10s).report ==
          "worker 0 in all_reduce has waited 10 s for worker 1 (b:2), which has not answered for "
          "6 s; "
          "it counts as lost "
          "after 30 s (CommunicationOptions::timeout)");
  }

  TEST_CASE(
      "a rank that waits itself is asked for whom, and the one at the end of the chain is named") {
    Wait wait(30s, 60s);
    for (Milliseconds now = 1s; now < 5s; now += 1s) {
      (void)wait.at(now);
      wait.answer(1, now, 2);
      if (now >= 2s) wait.answer(2, now, 3);
      if (now >= 3s) wait.answer(3, now, -1, "evaluate");
    }
    CHECK(wait.asked == std::vector{1, 1, 2, 1, 3, 1, 3});
    const WaitPolicy::Advice advice = wait.at(5s);
    CHECK(advice.report.find("has waited 5 s for worker 3 (d:4), which is alive: evaluate;") !=
          std::string::npos);
    CHECK(advice.reported == 3);
    for (Milliseconds now = 6s; now < 60s; now += 1s) {
      CHECK_FALSE(wait.at(now).failure);
      wait.answer(1, now, 2);
    }
    CHECK(wait.at(60s).failure->failed_rank == 3);
  }

  TEST_CASE("ranks that wait for each other have a little more time") {
    Wait wait(3s, 10s);
    for (Milliseconds now = 500ms; now < 15s; now += 500ms) {
      CHECK_FALSE(wait.at(now).failure);
      wait.answer(1, now, 0);
    }
    const auto advice = wait.at(15s);
    REQUIRE(advice.failure);
    CHECK(advice.failure->failed_rank == 1);
    CHECK(advice.failure->reason.find("is alive and waits for worker 0") != std::string::npos);
  }

  TEST_CASE("for one that has come to its end, a little while longer, for what is on its way") {
    Wait wait(30s);
    wait.board.set({.call = "load"});
    (void)wait.at(3s);
    wait.hear(1, 3s, ControlFrame::Type::goodbye);
    CHECK_FALSE(wait.at(3s).failure);
    CHECK_FALSE(wait.at(7999ms).failure);
    const auto advice = wait.at(8s);
    REQUIRE(advice.failure);
    CHECK(
        advice.failure->reason ==
        "came to its end while worker 0 in all_reduce still waits for it; all workers must run the "
        "same number of steps; "
        "worker 0 is in load");
    CHECK(advice.failure->code == ExitCode::failure);
  }

  TEST_CASE("at its own end, a rank waits for others that have come to theirs") {
    Wait wait(3s, 20s, true);
    wait.hear(1, 0s, ControlFrame::Type::goodbye);
    for (Milliseconds now = 500ms; now < 20s; now += 500ms) {
      CHECK_FALSE(wait.at(now).failure);
      wait.answer(1, now);
    }
    CHECK(wait.at(20s).failure);
  }

  TEST_CASE("a rank that asks this one learns for whom it waits") {
    Wait wait(3s);
    wait.channel.set_awaited(2);
    wait.hear(1, 0s, ControlFrame::Type::probe);
    CHECK(wait.asked == std::vector{1});
  }
}

#include "lockstep/collectives/protocol/control_channel.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace lockstep;
using namespace lockstep::detail;
using namespace std::chrono_literals;
using Type = ControlFrame::Type;

namespace {

std::string bytes_of(const ControlFrame& frame, const std::string& text = {}) {
  const FrameBytes bytes = frame.encode();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + text;
}

/// A channel, and what it has sent.
struct Conversation {
  Conversation(int rank, int size)
      : channel(rank, size, board,
                [this](int to, const ControlFrame& frame, std::string_view text) {
                  sent.emplace_back(to, frame);
                  last_text = text;
                  all.emplace_back(to, bytes_of(frame, last_text));
                }) {}

  std::vector<std::pair<int, ControlFrame>> sent;
  std::string last_text;
  std::vector<std::pair<int, std::string>> all{};  // to whom, the bytes
  ActivityBoard board;
  ControlChannel channel;
};

ControlChannel::Clock::time_point at(std::chrono::milliseconds time) {
  return ControlChannel::Clock::time_point(time);
}

}  // namespace

TEST_SUITE("control channel") {
  TEST_CASE("a question is answered at once, with the rank that is awaited") {
    Conversation rank_1(1, 3);
    CHECK(rank_1.channel.take(0, bytes_of({.type = Type::probe, .extra = 7}), at(0s)));
    rank_1.channel.set_awaited(2);
    CHECK(rank_1.channel.take(0, bytes_of({.type = Type::probe, .extra = 8}), at(0s)));
    REQUIRE(rank_1.sent.size() == 2);
    CHECK(rank_1.sent[0] ==
          std::pair(0, ControlFrame{.type = Type::waiting, .value = -1, .extra = 7}));
    CHECK(rank_1.sent[1] ==
          std::pair(0, ControlFrame{.type = Type::waiting, .value = 2, .extra = 8}));
  }

  TEST_CASE("a rank that is asked has not answered until its answer is there") {
    Conversation rank_0(0, 3);
    CHECK(rank_0.channel.take(2, bytes_of({.type = Type::waiting, .value = 1}), at(0s)));
    CHECK(rank_0.channel.peer(2).answered);
    CHECK(rank_0.channel.peer(2).waits_for == 1);
    rank_0.channel.ask(2, at(1s));
    CHECK(rank_0.sent.back() == std::pair(2, ControlFrame{.type = Type::probe, .extra = 1}));
    CHECK_FALSE(rank_0.channel.peer(2).answered);
    rank_0.channel.ask(2, at(2s));
    CHECK(rank_0.channel.peer(2).asked == at(1s));  // also unanswered
    CHECK(rank_0.channel.peer(2).heard == at(0s));
    CHECK(rank_0.channel.take(2, bytes_of({.type = Type::waiting, .extra = 1}), at(2s)));
    CHECK_FALSE(rank_0.channel.peer(2).answered);  // not the second one
    CHECK(rank_0.channel.take(2, bytes_of({.type = Type::waiting, .extra = 2}), at(3s)));
    CHECK(rank_0.channel.peer(2).answered);
    CHECK(rank_0.channel.peer(2).heard == at(3s));
    rank_0.channel.ask(2, at(4s));
    CHECK(rank_0.channel.peer(2).asked == at(4s));
  }

  TEST_CASE("a large question gets an answer as large, which says no more for it") {
    Conversation rank_0(0, 2), rank_1(1, 2);
    rank_1.board.set({.call = "fit"});
    rank_0.channel.ask(1, at(1s), true, true);
    CHECK(rank_0.channel.peer(1).was_in_circle);
    CHECK(rank_0.sent.back().second.length == ControlFrame::packet);
    CHECK(rank_1.channel.take(0, rank_0.all.back().second, at(1s)));
    CHECK(rank_1.sent.back().second.length == ControlFrame::packet);
    CHECK(rank_0.channel.take(1, rank_1.all.back().second, at(2s)));
    CHECK(rank_0.channel.peer(1).answered);
    CHECK(rank_0.channel.peer(1).activity == "fit");
    rank_0.channel.ask(1, at(3s));
    CHECK_FALSE(rank_0.channel.peer(1).was_in_circle);
  }

  TEST_CASE("an answer says what the rank is doing, and what comes from a peer is fit for a log") {
    Conversation rank_0(0, 2), rank_1(1, 2);
    rank_1.board.set(
        {.call = "fit", .part = "on_epoch_end of Save\nImages", .epoch = 2, .step = 16});
    CHECK(rank_1.channel.take(0, bytes_of({.type = Type::probe}), at(0s)));
    REQUIRE(rank_1.sent.size() == 1);
    CHECK(rank_1.sent[0].second.length == rank_1.last_text.size());
    CHECK(rank_0.channel.take(1, bytes_of(rank_1.sent[0].second, rank_1.last_text), at(0s)));
    CHECK(rank_0.channel.peer(1).activity == "fit, epoch 3, step 17, on_epoch_end of Save?Images");
    const std::string reason = "\x1b[2Jgone";
    CHECK(rank_0.channel.take(1, bytes_of({.type = Type::abort, .length = 8}, reason), at(0s)));
    CHECK(rank_0.channel.reported()->reason == "?[2Jgone");
  }

  TEST_CASE("the first report of a failure counts") {
    Conversation rank_0(0, 3);
    const std::string first = "out of memory", second = "lost";
    const auto report = [](int failed, ExitCode code, const std::string& text) {
      return bytes_of({.type = Type::abort,
                       .value = failed,
                       .extra = static_cast<std::int32_t>(code),
                       .length = static_cast<std::uint32_t>(text.size())},
                      text);
    };
    CHECK_FALSE(rank_0.channel.reported());
    CHECK(rank_0.channel.take(
        1, report(2, ExitCode::failure, first) + report(0, ExitCode::lost_peer, second), at(0s)));
    REQUIRE(rank_0.channel.reported());
    CHECK(rank_0.channel.reported()->failed_rank == 2);
    CHECK(rank_0.channel.reported()->reason == first);
    CHECK(rank_0.channel.reported()->code == ExitCode::failure);

    for (const int stranger : {-1, -7, 3, 1 << 30}) {
      Conversation other(0, 3);
      CHECK(other.channel.take(1, report(stranger, ExitCode::failure, first), at(0s)));
      CHECK(other.channel.reported()->failed_rank == -1);
    }
  }

  TEST_CASE("all others are told of a failure, once, and no more than fits") {
    Conversation rank_1(1, 3);
    CollectiveFailure failure;
    failure.failed_rank = 2;
    failure.reason = std::string(5000, 'x');
    failure.code = ExitCode::usage;
    rank_1.channel.report(failure);
    rank_1.channel.report(failure);
    REQUIRE(rank_1.sent.size() == 2);
    CHECK(rank_1.sent[0].first == 0);
    CHECK(rank_1.sent[1].first == 2);
    CHECK(rank_1.sent[0].second.value == 2);
    CHECK(rank_1.sent[0].second.length == ControlFrame::longest);
    CHECK(rank_1.last_text.size() == ControlFrame::longest);

    Conversation rank_0(0, 3);  // understands it
    CHECK(rank_0.channel.take(1, bytes_of(rank_1.sent[0].second, rank_1.last_text), at(0s)));
    CHECK(rank_0.channel.reported()->code == ExitCode::usage);
  }

  TEST_CASE("a rank that has come to its end is known, also from bytes that had come before") {
    Conversation rank_1(1, 2);
    rank_1.channel.peer(0).inbox.append(
        bytes_of({.type = Type::goodbye}));  // left over from the start-up
    CHECK(rank_1.channel.take(0, {}, at(0s)));
    CHECK(rank_1.channel.peer(0).goodbye);
    CHECK_FALSE(rank_1.channel.peer(0).farewell);
    CHECK(rank_1.channel.take(0, bytes_of({.type = Type::farewell}), at(0s)));
    CHECK(rank_1.channel.peer(0).farewell);
    rank_1.channel.say_goodbye();
    CHECK(rank_1.sent == std::vector{std::pair(0, ControlFrame{.type = Type::goodbye})});
  }

  TEST_CASE("of many ranks, a question goes from partner to partner, and so does its answer") {
    constexpr int size = 24;
    std::vector<std::unique_ptr<Conversation>> ranks;
    for (int rank = 0; rank < size; ++rank)
      ranks.push_back(std::make_unique<Conversation>(rank, size));
    ranks[11]->channel.set_awaited(5);
    ranks[11]->board.set({.call = "evaluate"});
    const auto deliver = [&] {
      int messages = 0;
      for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (int from = 0; from < size; ++from)
          for (const auto& [to, bytes] :
               std::exchange(ranks[static_cast<std::size_t>(from)]->all, {})) {
            CHECK(are_partners(from, to, size));
            CHECK(ranks[static_cast<std::size_t>(to)]->channel.take(from, bytes, at(5s)));
            goes_on = true;
            ++messages;
          }
      }
      return messages;
    };
    ControlChannel& asking = ranks[0]->channel;
    asking.ask(11, at(4s));
    CHECK_FALSE(asking.peer(11).answered);
    CHECK(deliver() <= 2 * 4);
    CHECK(asking.peer(11).answered);
    CHECK(asking.peer(11).waits_for == 5);
    CHECK(asking.peer(11).activity == "evaluate");
    CHECK(asking.peer(11).heard == at(5s));
    CHECK_FALSE(asking.peer(11).goodbye);

    // Round a partner that is lost.
    for (const int lost : {8, 12}) asking.peer(lost).gone = true;
    asking.ask(11, at(6s));
    deliver();
    CHECK(asking.peer(11).answered);

    // One that has ended says so to its partners and to rank 0, and to others when they ask.
    ranks[11]->channel.say_goodbye();
    deliver();
    CHECK(asking.peer(11).goodbye);
    CHECK(ranks[12]->channel.peer(11).goodbye);
    CHECK_FALSE(ranks[1]->channel.peer(11).goodbye);
    ranks[1]->channel.ask(11, at(7s));
    deliver();
    CHECK(ranks[1]->channel.peer(11).goodbye);

    // The farewell of rank 0 reaches all.
    asking.say_farewell();
    deliver();
    for (int rank = 1; rank < size; ++rank)
      CHECK(ranks[static_cast<std::size_t>(rank)]->channel.peer(0).farewell);
  }

  TEST_CASE("what is said to be another's word is believed of no partner, and of questions alone") {
    constexpr int size = 24;
    const auto relayed = [](int from, int to, const std::string& inner) {
      return bytes_of({.type = Type::relayed,
                       .value = from,
                       .extra = to,
                       .length = static_cast<std::uint32_t>(inner.size())},
                      inner);
    };
    Conversation rank_0(0, size);
    const std::string goodbye = bytes_of({.type = Type::goodbye});
    for (const auto& bytes :
         {relayed(2, 0, goodbye), relayed(0, 0, goodbye), relayed(-1, 0, goodbye),
          relayed(99, 0, goodbye), relayed(11, 99, goodbye), relayed(11, -1, goodbye),
          relayed(11, 0, goodbye.substr(1)), relayed(11, 0, goodbye + "x"), relayed(11, 0, {}),
          relayed(11, 0, bytes_of({.type = Type::abort, .value = 3})),
          relayed(11, 0, relayed(13, 0, goodbye))})
      CHECK(rank_0.channel.take(1, bytes, at(0s)));
    for (int other = 0; other < size; ++other) CHECK_FALSE(rank_0.channel.peer(other).goodbye);
    CHECK_FALSE(rank_0.channel.reported());
    CHECK(rank_0.sent.empty());
    CHECK(rank_0.channel.take(1, relayed(11, 0, goodbye), at(0s)));
    CHECK(rank_0.channel.peer(11).goodbye);
  }

  TEST_CASE("something else is noticed") {
    Conversation rank_0(0, 2);
    CHECK(rank_0.channel.take(1, "GET / HTTP/1.1", at(0s)));  // may still become one
    CHECK_FALSE(rank_0.channel.take(1, "\r\n", at(0s)));
  }
}

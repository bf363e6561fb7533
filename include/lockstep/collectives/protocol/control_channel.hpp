// What the ranks say to each other about themselves, apart from any socket.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/partners.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The conversation of one rank with all others, from the end of the start-up on: bytes that have
/// come go into take(), and frames are sent by the function that it was given. Questions are
/// answered at once, with what the rank's ActivityBoard shows; the rest can be looked up.
///
/// A rank is connected to its partners (see are_partners). What concerns all, such as the
/// report of a failure, it tells these, and each of them its partners. A question to another rank
/// and its answer go from partner to partner, each time to the one that is nearest to where they
/// should go; what is lost on the way is asked again.
class ControlChannel {
 public:
  using Clock = std::chrono::steady_clock;
  using OnVote =
      std::function<void(int from, const ControlInbox::Message& message, Clock::time_point now)>;
  using Send = std::function<void(int to, const ControlFrame& frame, std::string_view text)>;

  struct Peer {
    ControlInbox inbox{};
    bool gone = false;           ///< a partner: its connection is closed
    bool goodbye = false;        ///< it has ended (by what others say, if it is no partner)
    bool farewell = false;       ///< of rank 0: it says that all ranks have
    std::int32_t questions = 0;  ///< the number of the last one
    std::int32_t answers = 0;    ///< the number of the last one that it answered
    bool answered = true;        ///< all questions
    Clock::time_point asked{};   ///< when the first unanswered question was asked
    bool was_in_circle = false;  ///< then, all had long answered and waited for each other
    int waits_for = -1;          ///< what it answered: a rank, or -1
    std::string activity{};      ///< what it is doing, by its last answer; printable
    Clock::time_point heard{};   ///< when the last message of it came
  };

  ControlChannel(int rank, int size, const ActivityBoard& board, Send send)
      : rank_(rank),
        board_(board),
        peers_(static_cast<std::size_t>(size)),
        partners_(partners_of(rank, size)),
        send_(std::move(send)) {}

  [[nodiscard]] Peer& peer(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Peer& peer(int rank) const noexcept {
    return peers_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(peers_.size()); }
  /// The ranks that this one is connected to, in their order.
  [[nodiscard]] const std::vector<int>& partners() const noexcept { return partners_; }
  [[nodiscard]] bool is_partner(int other) const noexcept {
    return are_partners(rank_, other, size());
  }

  /// Takes what a peer says in a FailureConsensus; without it, that is dropped.
  void set_on_vote(OnVote on_vote) { on_vote_ = std::move(on_vote); }

  /// The first failure that a peer has reported. Its failed_rank is -1 when no rank can be blamed.
  [[nodiscard]] const std::optional<CollectiveFailure>& reported() const noexcept {
    return reported_;
  }

  /// How many ranks have said that they, or all, have ended.
  [[nodiscard]] int endings() const noexcept { return endings_; }

  /// Takes bytes that `from` has sent, if any, and handles all messages that are complete. Returns
  /// false when it has sent something else.
  [[nodiscard]] bool take(int from, std::string_view bytes, Clock::time_point now) {
    ControlInbox& inbox = peer(from).inbox;
    inbox.append(bytes);
    for (auto message = inbox.front(); message; message = inbox.front()) {
      peer(from).heard = now;
      handle(from, *message, now);
      inbox.pop();
    }
    return !inbox.is_broken();
  }

  /// The answer to the question which rank this one waits for; -1: for none. Any thread may call
  /// it.
  void set_awaited(int rank) noexcept { awaited_.store(rank, std::memory_order_relaxed); }

  /// Asks a peer whether it is there; until it answers, it has not `answered`. A large question,
  /// and its answer, fill a packet of Ethernet: on a way that loses such packets, nothing passes
  /// any more.
  void ask(int other, Clock::time_point now, bool in_circle = false, bool large = false) {
    Peer& p = peer(other);
    if (std::exchange(p.answered, false)) {
      p.asked = now;
      p.was_in_circle = in_circle;
    }
    post(other, {.type = ControlFrame::Type::probe, .extra = ++p.questions},
         std::string(large ? ControlFrame::packet : 0, ' '));
  }

  /// Tells all partners.
  void tell_partners(const ControlFrame& frame, std::string_view text = {}) const {
    for (const int other : partners_) tell(other, frame, text);
  }
  /// Tells one partner.
  void tell(int partner, ControlFrame frame, std::string_view text = {}) const {
    text = text.substr(0, ControlFrame::longest);
    frame.length = static_cast<std::uint32_t>(text.size());
    send_(partner, frame, text);
  }

  /// This rank has ended. Its partners and rank 0 must know; others, when they ask.
  void say_goodbye() {
    said_goodbye_ = true;
    tell_partners({.type = ControlFrame::Type::goodbye});
    if (rank_ != 0 && !is_partner(0)) post(0, {.type = ControlFrame::Type::goodbye});
  }
  /// All ranks have come to their end.
  void say_farewell() {
    if (!std::exchange(said_farewell_, true)) tell_partners({.type = ControlFrame::Type::farewell});
  }

  /// Tells all others of a failure; of the first one only. A rank that hears of it does the same.
  void report(const CollectiveFailure& failure) {
    if (std::exchange(others_know_, true)) return;
    tell_partners({.type = ControlFrame::Type::abort,
                   .value = failure.failed_rank,
                   .extra = static_cast<std::int32_t>(failure.code)},
                  failure.reason);
  }

 private:
  // To any rank.
  void post(int to, ControlFrame frame, std::string_view text = {}) const {
    if (is_partner(to)) return tell(to, frame, text);
    text = text.substr(0, ControlFrame::longest);
    frame.length = static_cast<std::uint32_t>(text.size());
    const FrameBytes bytes = frame.encode();
    std::string whole(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    whole += text;
    pass_on(rank_, to, whole);
  }

  // Each step brings it nearer, so that it goes round no circle.
  void pass_on(int from, int to, std::string_view message) const {
    int next = -1, nearest = circle_distance(rank_, to, size());
    for (const int other : partners_) {
      const int distance = circle_distance(other, to, size());
      if (peer(other).gone || distance >= nearest) continue;
      next = other;
      nearest = distance;
    }
    if (next >= 0)
      send_(next,
            {.type = ControlFrame::Type::relayed,
             .value = from,
             .extra = to,
             .length = static_cast<std::uint32_t>(message.size())},
            message);
  }

  void take_relayed(const ControlInbox::Message& message, Clock::time_point now) {
    const int from = message.frame.value, to = message.frame.extra;
    if (from < 0 || from >= size() || to < 0 || to >= size() || from == rank_) return;
    if (message.text.size() < frame_bytes) return;
    if (to != rank_) return pass_on(from, to, message.text);
    FrameBytes bytes;
    std::memcpy(bytes.data(), message.text.data(), bytes.size());
    ControlInbox::Message inner{{}, message.text.substr(frame_bytes)};
    if (!ControlFrame::decode(bytes, inner.frame) || inner.frame.length != inner.text.size() ||
        is_partner(from))
      return;
    const auto type = inner.frame.type;
    if (type != ControlFrame::Type::probe && type != ControlFrame::Type::waiting &&
        type != ControlFrame::Type::goodbye)
      return;
    peer(from).heard = now;
    handle(from, inner, now);
  }

  void handle(int from, const ControlInbox::Message& message, Clock::time_point now) {
    Peer& p = peer(from);
    const ControlFrame& frame = message.frame;
    switch (frame.type) {
      case ControlFrame::Type::abort:
        if (reported_) break;
        reported_.emplace();
        reported_->failed_rank = frame.value >= 0 && frame.value < size() ? frame.value : -1;
        reported_->reason = printable(message.text, ControlFrame::longest);
        reported_->code = failure_code(frame.extra);
        break;
      case ControlFrame::Type::probe:
        answer(from, frame.extra, message.text.size());
        break;
      case ControlFrame::Type::waiting:
        p.answers = frame.extra;
        p.answered = p.answers == p.questions;
        p.waits_for = frame.value >= 0 && frame.value < size() ? frame.value : -1;
        p.activity = printable(message.text.substr(0, message.text.find_last_not_of(' ') + 1),
                               ControlFrame::longest);
        break;
      case ControlFrame::Type::goodbye:
        endings_ += !std::exchange(p.goodbye, true);
        break;
      case ControlFrame::Type::farewell:
        hear_farewell(from);
        break;
      case ControlFrame::Type::doubt:
      case ControlFrame::Type::vote:
        if (on_vote_) on_vote_(from, message, now);
        break;
      case ControlFrame::Type::relayed:
        take_relayed(message, now);
        break;
      case ControlFrame::Type::ready:
      case ControlFrame::Type::go:
        break;
    }
  }

  // The first one goes to those partners that the sender has not told.
  void hear_farewell(int from) {
    if (std::exchange(peer(0).farewell, true)) return;
    ++endings_;
    if (std::exchange(said_farewell_, true)) return;
    for (const int other : partners_)
      if (other != from && !are_partners(from, other, size()))
        tell(other, {.type = ControlFrame::Type::farewell});
  }

  // With blanks, as long as the question.
  void answer(int to, std::int32_t question, std::size_t length) const {
    const Activity activity = board_.get();
    std::string text = activity == Activity{} ? std::string() : to_string(activity);
    text.resize(std::max(text.size(), length), ' ');
    if (said_goodbye_ && !is_partner(to)) post(to, {.type = ControlFrame::Type::goodbye});
    post(to,
         {.type = ControlFrame::Type::waiting,
          .value = awaited_.load(std::memory_order_relaxed),
          .extra = question},
         text);
  }

  int rank_;
  const ActivityBoard& board_;
  std::vector<Peer> peers_;
  std::vector<int> partners_;
  Send send_;
  OnVote on_vote_;
  std::atomic<int> awaited_ = -1;
  std::optional<CollectiveFailure> reported_;
  bool others_know_ = false;
  bool said_goodbye_ = false;
  bool said_farewell_ = false;
  int endings_ = 0;
};

}}}  // namespace lockstep::detail

// What the ranks say to each other about themselves, apart from any socket.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/protocol/control_inbox.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The conversation of one rank with all others, from the end of the start-up on: bytes that have
/// come go into take(), and frames are sent by the function that it was given. Questions are
/// answered at once, with what the rank's ActivityBoard shows; the rest can be looked up.
class ControlChannel {
 public:
  using Clock = std::chrono::steady_clock;
  using Inquire =
      std::function<void(int from, const ControlInbox::Message& message, Clock::time_point now)>;
  using Send = std::function<void(int to, const ControlFrame& frame, std::string_view text)>;

  struct Peer {
    ControlInbox inbox{};
    bool gone = false;           ///< its connection is closed
    bool goodbye = false;        ///< it has ended
    bool farewell = false;       ///< it says that all ranks have
    std::int32_t questions = 0;  ///< the number of the last one
    std::int32_t answers = 0;    ///< the number of the last one that it answered
    bool answered = true;        ///< all questions
    Clock::time_point asked{};   ///< when the first unanswered question was asked
    int waits_for = -1;          ///< what it answered: a rank, or -1
    std::string activity{};      ///< what it is doing, by its last answer; printable
    Clock::time_point heard{};   ///< when the last message of it came
  };

  ControlChannel(int rank, int size, const ActivityBoard& board, Send send)
      : rank_(rank),
        board_(board),
        peers_(static_cast<std::size_t>(size)),
        send_(std::move(send)) {}

  [[nodiscard]] Peer& peer(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Peer& peer(int rank) const noexcept {
    return peers_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(peers_.size()); }

  /// Takes what a peer says of an Inquiry; without it, that is dropped.
  void set_inquiry(Inquire inquire) { inquire_ = std::move(inquire); }

  /// The first failure that a peer has reported. Its failed_rank is -1 when no rank can be blamed.
  [[nodiscard]] const std::optional<CollectiveFailure>& reported() const noexcept {
    return reported_;
  }

  /// Takes bytes that `from` has sent, if any, and handles all messages that are complete. Returns
  /// false when it has sent something else.
  [[nodiscard]] bool take(int from, std::string_view bytes, Clock::time_point now) {
    ControlInbox& inbox = peer(from).inbox;
    inbox.append(bytes);
    for (auto message = inbox.front(); message; message = inbox.front()) {
      peer(from).heard = now;
      handle(from, *message);
      inbox.pop();
    }
    return !inbox.is_broken();
  }

  /// The answer to the question which rank this one waits for; -1: for none. Any thread may call
  /// it.
  void set_awaited(int rank) noexcept { awaited_.store(rank, std::memory_order_relaxed); }

  /// Asks a peer whether it is there; until it answers, it has not `answered`.
  void ask(int other, Clock::time_point now) {
    if (std::exchange(peer(other).answered, false)) peer(other).asked = now;
    send_(other, {.type = ControlFrame::Type::probe, .extra = ++peer(other).questions}, {});
  }

  void say_to_all(ControlFrame::Type type, std::string_view text = {}) const {
    for (int other = 0; other < size(); ++other)
      if (other != rank_) send_text(other, {.type = type}, text);
  }

  /// Tells all others of a failure; of the first one only.
  void report(const CollectiveFailure& failure) {
    if (std::exchange(others_know_, true)) return;
    for (int other = 0; other < size(); ++other)
      if (other != rank_)
        send_text(other,
                  {.type = ControlFrame::Type::abort,
                   .value = failure.failed_rank,
                   .extra = static_cast<std::int32_t>(failure.code)},
                  failure.reason);
  }

 private:
  void send_text(int to, ControlFrame frame, std::string_view text) const {
    text = text.substr(0, ControlFrame::longest);
    frame.length = static_cast<std::uint32_t>(text.size());
    send_(to, frame, text);
  }

  void handle(int from, const ControlInbox::Message& message) {
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
        answer(from, frame.extra);
        break;
      case ControlFrame::Type::waiting:
        p.answers = frame.extra;
        p.answered = p.answers == p.questions;
        p.waits_for = frame.value >= 0 && frame.value < size() ? frame.value : -1;
        p.activity = printable(message.text, ControlFrame::longest);
        break;
      case ControlFrame::Type::goodbye:
        p.goodbye = true;
        break;
      case ControlFrame::Type::farewell:
        p.farewell = true;
        break;
      case ControlFrame::Type::doubt:
      case ControlFrame::Type::ballot:
        if (inquire_) inquire_(from, message, p.heard);
        break;
      case ControlFrame::Type::ready:
      case ControlFrame::Type::go:
        break;
    }
  }

  void answer(int to, std::int32_t question) const {
    const Activity activity = board_.get();
    send_text(to,
              {.type = ControlFrame::Type::waiting,
               .value = awaited_.load(std::memory_order_relaxed),
               .extra = question},
              activity == Activity{} ? std::string() : to_string(activity));
  }

  int rank_;
  const ActivityBoard& board_;
  std::vector<Peer> peers_;
  Send send_;
  Inquire inquire_;
  std::atomic<int> awaited_ = -1;
  std::optional<CollectiveFailure> reported_;
  bool others_know_ = false;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

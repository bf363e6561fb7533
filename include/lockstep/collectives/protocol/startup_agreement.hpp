// How the workers agree that all of them are connected, apart from any socket.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/protocol/control_inbox.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/startup_roster.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What is said on the control connections during start-up: rank 0 hears from all others when they
/// are **ready**, connected to all, and then tells them to **go**. In the meantime each rank
/// is asked whether it is there, and for which rank it waits.
class StartupAgreement {
 public:
  using Clock = StartupRoster::Clock;
  /// Does nothing when there is no connection.
  using Send = std::function<void(int to, const ControlFrame& frame, std::string_view text)>;

  enum class Taken {
    all,      ///< and more is welcome
    enough,   ///< what follows is for later, or the start-up ends
    garbage,  ///< the peer has sent something that is no control frame
  };

  StartupAgreement(StartupRoster& roster, Send send)
      : roster_(roster),
        send_(std::move(send)),
        inboxes_(static_cast<std::size_t>(roster.world())) {}

  /// All ranks go.
  [[nodiscard]] bool is_reached() const noexcept { return reached_; }
  /// A peer's report that it has given up.
  [[nodiscard]] const std::optional<CollectiveFailure>& aborted() const noexcept {
    return aborted_;
  }
  /// What has come from a peer; at the end, what is for later.
  [[nodiscard]] ControlInbox& inbox(int peer) { return inboxes_[static_cast<std::size_t>(peer)]; }

  /// There is a new control connection to a peer.
  void begin(int other, Clock::time_point now) {
    inbox(other) = {};
    if (other == 0) ready_sent_ = go_ = false;
    StartupRoster::Peer& peer = roster_.peer(other);
    peer.ready = false;
    peer.heard = now;
    peer.waits_for = -1;
  }
  /// It is closed.
  void lose(int other) {
    roster_.peer(other).ready = false;
    if (other == 0) go_ = false;
  }

  [[nodiscard]] Taken take(int from, std::string_view bytes, Clock::time_point now) {
    inbox(from).append(bytes);
    for (auto message = inbox(from).front(); message; message = inbox(from).front()) {
      if (!handle(from, *message, now)) return Taken::enough;
      inbox(from).pop();
      if (go_ && roster_.all_connected()) return Taken::enough;  // else rank 0 may still give up
    }
    return inbox(from).is_broken() ? Taken::garbage : Taken::all;
  }

  /// To be called when something has changed, and while no guest contends for a place.
  void consider() {
    if (reached_ || !roster_.all_connected()) return;
    if (roster_.rank() != 0) {
      if (!std::exchange(ready_sent_, true)) say(0, ControlFrame::Type::ready);
      reached_ = go_;
    } else if (roster_.all_ready()) {
      for (int other = 1; other < roster_.world(); ++other) say(other, ControlFrame::Type::go);
      reached_ = go_ = true;
    }
  }

  void ask(int other) { say(other, ControlFrame::Type::probe); }

  /// What to tell the others of the failure that ends this rank's start-up; its text follows.
  [[nodiscard]] ControlFrame report(const Error& error, std::string_view text) const {
    const auto* lost = dynamic_cast<const CollectiveError*>(&error);
    return {.type = ControlFrame::Type::abort,
            .value = lost != nullptr ? lost->failed_rank() : roster_.rank(),
            .extra = static_cast<std::int32_t>(error.exit_code()),
            .length = static_cast<std::uint32_t>(text.size())};
  }

 private:
  void say(int to, ControlFrame::Type type) { send_(to, {.type = type}, {}); }

  // Returns false when the message belongs to the time after the start-up, or ends it.
  [[nodiscard]] bool handle(int from, const ControlInbox::Message& message, Clock::time_point now) {
    StartupRoster::Peer& peer = roster_.peer(from);
    switch (message.frame.type) {
      case ControlFrame::Type::ready:
        if (roster_.rank() != 0) return false;
        peer.ready = true;
        return true;
      case ControlFrame::Type::go:
        if (from != 0) return false;
        go_ = true;
        return true;
      case ControlFrame::Type::probe:
        answer(from, now);
        return true;
      case ControlFrame::Type::waiting:
        peer.answered = true;
        peer.heard = now;
        peer.waits_for = message.frame.value;
        roster_.hear_complaints(from, message.text);
        return true;
      case ControlFrame::Type::abort:
        give_up(from, message);
        return false;
      case ControlFrame::Type::goodbye:
      case ControlFrame::Type::farewell:
      case ControlFrame::Type::doubt:
      case ControlFrame::Type::ballot:
        break;
    }
    return false;
  }

  void answer(int to, Clock::time_point now) {
    const std::string text = roster_.complaints(to);
    send_(to,
          {.type = ControlFrame::Type::waiting,
           .value = roster_.first_missing(now),
           .length = static_cast<std::uint32_t>(text.size())},
          text);
  }

  void give_up(int from, const ControlInbox::Message& message) {
    const int value = message.frame.value;
    aborted_.emplace();
    aborted_->failed_rank = value >= 0 && value < roster_.world() ? value : from;
    aborted_->address = roster_.address(aborted_->failed_rank);
    aborted_->reason =
        message.text.empty() ? "gave up" : printable(message.text, ControlFrame::longest);
    aborted_->code = failure_code(message.frame.extra);
  }

  StartupRoster& roster_;
  Send send_;
  std::vector<ControlInbox> inboxes_;  // by rank
  std::optional<CollectiveFailure> aborted_;
  bool ready_sent_ = false;  // to rank 0
  bool go_ = false;
  bool reached_ = false;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

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
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/partners.hpp"
#include "lockstep/collectives/protocol/startup_roster.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What is said on the control connections during start-up: rank 0 hears from all others when they
/// are **ready**, connected to all their contacts, and then tells them to **go**. In the meantime
/// each rank is asked whether it is there, and for which rank it waits.
///
/// A process may be started again at any moment, and connects anew to some ranks sooner than to
/// others. So both words say which processes are meant (StartupRoster::processes): rank 0 waits
/// until all others are connected to the same ones as itself, and a rank that hears go is not done
/// while it is connected to others than rank 0 was.
///
/// Rank 0 is at work when it has said go, and of many ranks it has a connection with few. So a rank
/// that hears go when it has lost a contact may be the only one that knows: it gives the contact
/// some time to connect again, if only their connection broke, and then gives up and tells all.
class StartupAgreement {
 public:
  using Clock = StartupRoster::Clock;
  /// Does nothing when there is no connection.
  using Send = std::function<void(int to, const ControlFrame& frame, std::string_view text)>;

  enum class Taken {
    all,      ///< all of it was taken, and more is welcome
    enough,   ///< what follows is for later, as the start-up ends
    garbage,  ///< the peer has sent something that is no control frame
  };

  StartupAgreement(StartupRoster& roster, Send send)
      : roster_(roster),
        send_(std::move(send)),
        inboxes_(static_cast<std::size_t>(roster.world())) {}

  /// Whether rank 0's go has been said and heard: all ranks go.
  [[nodiscard]] bool is_reached() const noexcept { return reached_; }
  /// Why this rank gives up: by a peer's report, or as it has lost a peer for good.
  [[nodiscard]] const std::optional<CollectiveFailure>& aborted() const noexcept {
    return aborted_;
  }
  /// Whether a contact may not have heard that: all but the one that told it, which may not be
  /// connected to the others yet. A rank that hears it twice ignores it.
  [[nodiscard]] bool is_news_for(int other) const noexcept {
    return aborted_ && roster_.is_contact(other) && other != told_by_;
  }
  /// What has come from a peer; at the end, what is for later.
  [[nodiscard]] ControlInbox& inbox(int peer) { return inboxes_[static_cast<std::size_t>(peer)]; }

  /// There is a new control connection to a peer.
  void begin(int other, Clock::time_point now) {
    inbox(other) = {};
    later_[static_cast<std::size_t>(other)].clear();
    if (other == 0) forget_rank_0();
    StartupRoster::Peer& peer = roster_.peer(other);
    auto& met = met_[static_cast<std::size_t>(other)];
    if (met && *met != peer.incarnation) replaced_ = other;
    met = peer.incarnation;
    peer.ready = false;
    said_ready_[static_cast<std::size_t>(other)].reset();
    peer.heard = now;
    peer.waits_for = -1;
  }
  /// The control connection to a peer is closed.
  void lose(int other) {
    roster_.peer(other).ready = false;
    said_ready_[static_cast<std::size_t>(other)].reset();
    if (other == 0) forget_rank_0();
  }

  [[nodiscard]] Taken take(int from, std::string_view bytes, Clock::time_point now) {
    inbox(from).append(bytes);
    for (auto message = inbox(from).front(); message; message = inbox(from).front()) {
      if (!handle(from, *message, now)) {
        if (aborted_) return Taken::enough;
        // A report may come after it.
        const FrameBytes frame = message->frame.encode();
        std::string& later = later_[static_cast<std::size_t>(from)];
        later.append(reinterpret_cast<const char*>(frame.data()), frame.size());
        later += message->text;
      }
      inbox(from).pop();
      if (may_go()) return Taken::enough;  // else rank 0 may still give up
    }
    return inbox(from).is_broken() ? Taken::garbage : Taken::all;
  }

  /// To be called when something has changed, and while no guest contends for a place.
  void consider() {
    if (reached_ || !roster_.all_connected()) return;
    if (roster_.rank() != 0) {
      const std::uint64_t processes = roster_.processes();
      if (ready_sent_ != processes) say(0, ControlFrame::Type::ready, processes);
      ready_sent_ = processes;
      if (may_go()) reach();
      return;
    }
    for (int other = 1; other < roster_.world(); ++other) {
      const auto& said = said_ready_[static_cast<std::size_t>(other)];
      roster_.peer(other).ready = said && *said == roster_.processes_around(other);
    }
    if (!roster_.all_ready()) return;
    for (int other = 1; other < roster_.world(); ++other)
      say(other, ControlFrame::Type::go, roster_.processes_around(other));
    reach();
  }

  /// When to look whether a contact is lost for good.
  [[nodiscard]] Clock::time_point due() const noexcept { return due_; }
  /// To be called then: gives up if so.
  void look_for_lost(Clock::time_point now) {
    if (reached_ || aborted_ || now < due_) return;
    due_ = now + patience;  // a guest contends for a place, perhaps
    const int lost = lost_after_go();
    if (lost < 0) return;
    aborted_ = roster_.failed(lost, was_lost_at_the_beginning);
  }

  void ask(int other) {
    send_(other, {.type = ControlFrame::Type::probe, .extra = ++roster_.peer(other).questions}, {});
  }
  /// Asks, and the answer matters: an earlier one may still be on its way from a process that has
  /// ended since.
  void ask_whether_it_lives(int other) {
    StartupRoster::Peer& peer = roster_.peer(other);
    ask(other);
    peer.matters = peer.questions;
    peer.answered = false;
  }

  /// Ready or go, and of which processes that is said: 64 bits in two numbers.
  [[nodiscard]] static ControlFrame about(ControlFrame::Type type, std::uint64_t processes) {
    return {.type = type,
            .value = static_cast<std::int32_t>(static_cast<std::uint32_t>(processes)),
            .extra = static_cast<std::int32_t>(static_cast<std::uint32_t>(processes >> 32))};
  }
  [[nodiscard]] static std::uint64_t processes_of(const ControlFrame& frame) {
    return static_cast<std::uint32_t>(frame.value) |
           std::uint64_t{static_cast<std::uint32_t>(frame.extra)} << 32;
  }

  /// What to tell the others of the failure that ends this rank's start-up; its text follows.
  [[nodiscard]] ControlFrame report(const Error& error, std::string_view text) const {
    const auto* lost = dynamic_cast<const CollectiveError*>(&error);
    return {.type = ControlFrame::Type::abort,
            .value = lost != nullptr ? lost->failed_rank() : roster_.rank(),
            .extra = static_cast<std::int32_t>(error.exit_code()),
            .length = static_cast<std::uint32_t>(text.size())};
  }

 private:
  // Enough to connect again, and for a contest (see StartupPlace).
  static constexpr auto patience = std::chrono::seconds(3);

  void say(int to, ControlFrame::Type type, std::uint64_t processes) {
    send_(to, about(type, processes), {});
  }

  void reach() {
    reached_ = true;
    for (std::size_t other = 0; other < inboxes_.size(); ++other)
      inboxes_[other].prepend(std::exchange(later_[other], {}));
  }

  void forget_rank_0() {
    ready_sent_.reset();
    go_.reset();
    due_ = Clock::time_point::max();
  }
  // Rank 0 has said so, of those that this rank is connected to.
  [[nodiscard]] bool may_go() const {
    return go_ && roster_.all_connected() && *go_ == roster_.processes();
  }
  // The contact without which rank 0's go cannot be followed; -1 if there is none. Rank 0 has said
  // it of processes that this rank was connected to: where they are others now, the one that was
  // replaced last is among those that are gone.
  [[nodiscard]] int lost_after_go() const {
    if (!go_) return -1;
    for (int other = 0; other < roster_.world(); ++other)
      if (roster_.is_contact(other) && !roster_.peer(other).connected) return other;
    return *go_ == roster_.processes() ? -1 : replaced_;
  }

  // Returns false when the message belongs to the time after the start-up, or ends that.
  [[nodiscard]] bool handle(int from, const ControlInbox::Message& message, Clock::time_point now) {
    StartupRoster::Peer& peer = roster_.peer(from);
    switch (message.frame.type) {
      case ControlFrame::Type::ready:
        if (roster_.rank() != 0) return false;
        said_ready_[static_cast<std::size_t>(from)] = processes_of(message.frame);
        peer.ready = true;
        return true;
      case ControlFrame::Type::go:
        if (from != 0) return false;
        go_ = processes_of(message.frame);
        due_ = now + patience;
        return true;
      case ControlFrame::Type::probe:
        answer(from, message.frame.extra, now);
        return true;
      case ControlFrame::Type::waiting:
        peer.answered = peer.answered || message.frame.extra >= peer.matters;
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
      case ControlFrame::Type::vote:
      case ControlFrame::Type::relayed:
        break;
    }
    return false;
  }

  void answer(int to, std::int32_t question, Clock::time_point now) {
    const std::string text = roster_.complaints(to);
    send_(to,
          {.type = ControlFrame::Type::waiting,
           .value = roster_.first_missing(now),
           .extra = question,
           .length = static_cast<std::uint32_t>(text.size())},
          text);
  }

  void give_up(int from, const ControlInbox::Message& message) {
    if (aborted_) return;
    const int value = message.frame.value;
    told_by_ = from;
    aborted_ = roster_.failed(
        value >= 0 && value < roster_.world() ? value : from,
        message.text.empty() ? "gave up" : printable(message.text, ControlFrame::longest));
    aborted_->code = failure_code(message.frame.extra);
  }

  StartupRoster& roster_;
  Send send_;
  std::vector<ControlInbox> inboxes_;  // by rank
  // What is for later, by rank: said by one for which the start-up is over.
  std::vector<std::string> later_ = std::vector<std::string>(inboxes_.size());
  std::optional<CollectiveFailure> aborted_;
  int told_by_ = -1;
  // Of which processes: what each rank has said to rank 0, this rank to rank 0, and rank 0.
  std::vector<std::optional<std::uint64_t>> said_ready_ =
      std::vector<std::optional<std::uint64_t>>(inboxes_.size());
  std::optional<std::uint64_t> ready_sent_;
  std::optional<std::uint64_t> go_;
  Clock::time_point due_ = Clock::time_point::max();
  // The process that each rank had last, and the rank that had another one before, most recently.
  std::vector<std::optional<std::uint64_t>> met_ =
      std::vector<std::optional<std::uint64_t>>(inboxes_.size());
  int replaced_ = -1;
  bool reached_ = false;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

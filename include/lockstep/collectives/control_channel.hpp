// What the ranks say to each other about themselves, apart from any socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/control_inbox.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/frame.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The conversation of one rank with all others, from the end of the start-up on: bytes that have come go into take(), and frames
/// are sent by the function that it was given. Questions are answered at once; the rest can be looked up.
class ControlChannel {
 public:
  using Send = std::function<void(int to, const ControlFrame& frame, std::string_view text)>;

  struct Peer {
    ControlInbox inbox{};
    bool gone = false;      ///< its connection is closed
    bool goodbye = false;   ///< it has come to its end
    bool farewell = false;  ///< it says that everybody has
    bool answered = false;  ///< the last question
    int waits_for = -1;     ///< what it answered: a rank, or -1
  };

  ControlChannel(int rank, int size, Send send)
      : rank_(rank), peers_(static_cast<std::size_t>(size)), send_(std::move(send)) {}

  [[nodiscard]] Peer& peer(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Peer& peer(int rank) const noexcept { return peers_[static_cast<std::size_t>(rank)]; }

  /// The first failure that a peer has reported. Its failed_rank is -1 when nobody can be blamed.
  [[nodiscard]] const std::optional<CollectiveFailure>& reported() const noexcept { return reported_; }

  /// Takes bytes that `from` has sent, if any, and handles all messages that are complete. Returns false when it has sent something else.
  [[nodiscard]] bool take(int from, std::string_view bytes) {
    ControlInbox& inbox = peer(from).inbox;
    inbox.append(bytes);
    for (auto message = inbox.front(); message; message = inbox.front()) {
      handle(from, *message);
      inbox.pop();
    }
    return !inbox.is_broken();
  }

  /// What this rank answers when it is asked for whom it waits.
  void set_awaited(int rank) noexcept { awaited_ = rank; }

  /// Asks a peer whether it is there; until it answers, it has not `answered`.
  void ask(int other) {
    peer(other).answered = false;
    send_(other, {.type = ControlFrame::Type::probe}, {});
  }

  void say(int to, ControlFrame::Type type) const { send_(to, {.type = type}, {}); }
  void say_to_all(ControlFrame::Type type) const {
    for (int other = 0; other < size(); ++other)
      if (other != rank_) say(other, type);
  }

  /// Tells all others of a failure; of the first one only.
  void report(const CollectiveFailure& failure) {
    if (std::exchange(others_know_, true)) return;
    const std::string_view text = std::string_view(failure.reason).substr(0, ControlFrame::longest);
    for (int other = 0; other < size(); ++other)
      if (other != rank_)
        send_(other,
              {.type = ControlFrame::Type::abort,
               .value = failure.failed_rank,
               .extra = static_cast<std::int32_t>(failure.code),
               .length = static_cast<std::uint32_t>(text.size())},
              text);
  }

 private:
  [[nodiscard]] int size() const noexcept { return static_cast<int>(peers_.size()); }

  void handle(int from, const ControlInbox::Message& message) {
    Peer& p = peer(from);
    const ControlFrame& frame = message.frame;
    switch (frame.type) {
      case ControlFrame::Type::abort:
        if (reported_) break;
        reported_.emplace();
        reported_->failed_rank = frame.value >= 0 && frame.value < size() ? frame.value : -1;
        reported_->reason = message.text;
        reported_->code = failure_code(frame.extra);
        break;
      case ControlFrame::Type::probe:
        send_(from, {.type = ControlFrame::Type::waiting, .value = awaited_}, {});
        break;
      case ControlFrame::Type::waiting:
        p.answered = true;
        p.waits_for = frame.value;
        break;
      case ControlFrame::Type::goodbye:
        p.goodbye = true;
        break;
      case ControlFrame::Type::farewell:
        p.farewell = true;
        break;
      case ControlFrame::Type::ready:
      case ControlFrame::Type::go:
        break;
    }
  }

  int rank_;
  std::vector<Peer> peers_;
  Send send_;
  int awaited_ = -1;
  std::optional<CollectiveFailure> reported_;
  bool others_know_ = false;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

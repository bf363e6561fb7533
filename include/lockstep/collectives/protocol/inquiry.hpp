// How the ranks find out together which one has failed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/protocol/ballot.hpp"
#include "lockstep/collectives/protocol/control_channel.hpp"
#include "lockstep/collectives/protocol/control_inbox.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// One rank's part in it. A rank that has lost another one, or has not heard from it for too long,
/// **doubts**: it tells all others, and each rank asks all others whether they are there. A living
/// rank answers at once, so a moment later each rank casts its ballot: the ranks that it hears. The
/// judge (see Ballots) sends the verdict to all; or all ranks are well, and the work goes on.
///
/// When every other rank answers or is known to be gone, this takes as long as two messages; a
/// silent rank makes it take time_for(ranks).
class Inquiry {
 public:
  using Clock = ControlChannel::Clock;
  using Milliseconds = std::chrono::milliseconds;

  static constexpr Milliseconds time_to_answer{1500};
  /// With many ranks it is more: all ask all, and they may share a machine.
  [[nodiscard]] static constexpr Milliseconds time_for(int ranks) noexcept {
    return time_to_answer + Milliseconds(25) * std::max(0, ranks - 16);
  }

  /// `names`: the ranks' names, for the verdict.
  Inquiry(ControlChannel& channel, std::vector<std::string> names)
      : channel_(channel), known_(names.size()), ballots_(channel.rank(), std::move(names)) {}

  /// The connection to a rank is closed (error 0) or broken. A probe may look for its process
  /// meanwhile.
  void lose(int other, int error, Clock::time_point now) {
    known(other).kind = error == 0 ? Hearing::Kind::closed : Hearing::Kind::broken;
    known(other).detail = error;
    begin(now);
  }
  /// The same for a connection for data, while that for control may still work.
  void lose_data(int other, int error, Clock::time_point now) {
    if (known(other).is_well() || known(other).is_quiet())
      known(other) = {Hearing::Kind::data_broken, error};
    begin(now);
  }
  /// A rank has not answered for this long.
  void miss(int other, Milliseconds silence, Clock::time_point now) {
    if (!known(other).is_well() && !known(other).is_quiet()) return;
    known(other) = {Hearing::Kind::silent, static_cast<std::int32_t>(silence.count())};
    begin(now);
  }

  /// Sets whether a probe looks for the process of a rank whose connection is lost: while it does,
  /// this rank's ballot waits.
  void look_for(int other, bool is_looked_for) { looked_for_[index(other)] = is_looked_for; }
  void found(int other, Hearing::Process process) {
    look_for(other, false);
    known(other).process = process;
  }

  /// Takes what a peer says of this inquiry.
  void take(int from, const ControlInbox::Message& message, Clock::time_point now) {
    if (message.frame.type == ControlFrame::Type::doubt) begin(now);
    if (!is_open()) return;
    has_spoken_[index(from)] = 1;
    if (message.frame.type != ControlFrame::Type::ballot) return;
    if (auto ballot = decode_ballot(message.text, known_.size()))
      ballots_.add(from, std::move(*ballot));
  }

  [[nodiscard]] bool is_open() const noexcept { return begin_.has_value(); }
  /// When to look again in any case.
  [[nodiscard]] Clock::time_point due() const noexcept {
    if (!is_open()) return Clock::time_point::max();
    return *begin_ + (cast_ ? 2 : 1) * time_for(channel_.size());
  }

  /// Call this when something has changed or is due. Returns the verdict if this rank is the one to
  /// pronounce it.
  [[nodiscard]] std::optional<CollectiveFailure> advance(Clock::time_point now) {
    if (!is_open()) return std::nullopt;
    if (!cast_ && (now >= due() || has_heard_all())) cast();
    const bool is_late = cast_ && now >= due();
    if (!cast_ || (!is_late && !ballots_.are_complete())) return std::nullopt;
    auto verdict = ballots_.verdict();
    if (!verdict) {
      close();
      if (has_lost_any()) begin(now);  // since this rank has cast its ballot
    }
    if (verdict && !is_late && ballots_.judge() != channel_.rank()) return std::nullopt;
    return verdict;
  }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  [[nodiscard]] Hearing& known(int rank) { return known_[index(rank)]; }

  void begin(Clock::time_point now) {
    if (is_open()) return;
    begin_ = now;
    has_spoken_.assign(known_.size(), 0);
    channel_.say_to_all(ControlFrame::Type::doubt);
    for (int other = 0; other < channel_.size(); ++other) {
      if (other == channel_.rank() || channel_.peer(other).gone) continue;
      channel_.ask(other, now);
      first_questions_[index(other)] = channel_.peer(other).questions;
    }
  }

  void close() {
    begin_.reset();
    cast_ = false;
    ballots_.clear();
    for (Hearing& hearing : known_)
      if (hearing.is_quiet()) hearing = {};
  }

  // It has answered the question, or taken part unasked: only the way to it may be cut, and not the
  // way back.
  [[nodiscard]] bool has_heard(int other) const {
    const ControlChannel::Peer& p = std::as_const(channel_).peer(other);
    return !p.gone && (p.answers >= first_questions_[index(other)] || has_spoken_[index(other)]);
  }

  [[nodiscard]] bool has_heard_all() const {
    for (int other = 0; other < channel_.size(); ++other) {
      if (other == channel_.rank() || std::as_const(channel_).peer(other).goodbye) continue;
      if (std::as_const(channel_).peer(other).gone ? bool(looked_for_[index(other)])
                                                   : !has_heard(other))
        return false;
    }
    return true;
  }

  [[nodiscard]] bool has_lost_any() const {
    for (int other = 0; other < channel_.size(); ++other)
      if (!known_[index(other)].is_well() && !known_[index(other)].is_quiet() &&
          !std::as_const(channel_).peer(other).goodbye)
        return true;
    return false;
  }

  [[nodiscard]] Ballot own_ballot() const {
    Ballot ballot = known_;
    for (int other = 0; other < channel_.size(); ++other) {
      Hearing& hearing = ballot[index(other)];
      const ControlChannel::Peer& p = std::as_const(channel_).peer(other);
      if (other == channel_.rank())
        hearing = {Hearing::Kind::heard};
      else if (p.goodbye)
        hearing = {Hearing::Kind::left};
      else if (has_heard(other) && hearing.kind != Hearing::Kind::data_broken)
        hearing = {Hearing::Kind::heard};
      else if (hearing.kind == Hearing::Kind::data_broken && !has_heard(other))
        hearing.kind = hearing.detail == 0 ? Hearing::Kind::closed : Hearing::Kind::broken;
      else if (!p.gone && !has_heard(other) && hearing.kind != Hearing::Kind::silent)
        hearing = {Hearing::Kind::unanswered};
    }
    return ballot;
  }

  void cast() {
    cast_ = true;
    const Ballot ballot = own_ballot();
    ballots_.add(channel_.rank(), ballot);
    channel_.say_to_all(ControlFrame::Type::ballot, encode_ballot(ballot));
  }

  ControlChannel& channel_;
  std::vector<Hearing> known_;  // by rank; unanswered: nothing bad
  std::vector<std::int32_t> first_questions_ = std::vector<std::int32_t>(known_.size());
  std::vector<char> has_spoken_;
  std::vector<char> looked_for_ = std::vector<char>(known_.size());
  Ballots ballots_;
  std::optional<Clock::time_point> begin_;
  bool cast_ = false;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

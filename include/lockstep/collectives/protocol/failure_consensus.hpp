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
#include "lockstep/collectives/protocol/control_channel.hpp"
#include "lockstep/collectives/protocol/control_inbox.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/peer_evidence.hpp"
#include "lockstep/collectives/protocol/vote_tally.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// One rank's part in it. A rank that has lost a partner, or has not heard from another rank for
/// too long, **doubts**: it tells its partners, these tell theirs, and each rank asks its partners
/// whether they are there. A living rank answers at once, so a moment later each rank casts its
/// vote: the partners that it hears. Votes, too, go from partner to partner, until all ranks that
/// can be reached have all of them. The judge (see VoteTally) sends the verdict to all; or all
/// ranks are well, and the work goes on.
///
/// When every partner answers or is known to be gone, this takes as long as the ways between the
/// ranks; a silent rank makes it take time_for(ranks). Each round has a higher number than the
/// last, so that late messages of an old round begin nothing. If two begin at once, the higher
/// number wins.
class FailureConsensus {
 public:
  using Clock = ControlChannel::Clock;
  using Milliseconds = std::chrono::milliseconds;

  static constexpr Milliseconds time_to_answer{1500};
  /// With many ranks it is more: they may share a machine.
  [[nodiscard]] static constexpr Milliseconds time_for(int ranks) noexcept {
    return time_to_answer + Milliseconds(25) * std::max(0, ranks - 16);
  }

  /// `names`: the ranks' names, for the verdict.
  FailureConsensus(ControlChannel& channel, std::vector<std::string> names)
      : channel_(channel), known_(names.size()), votes_(channel.rank(), std::move(names)) {}

  /// The connection to a rank is closed (error 0) or broken. A probe may look for its process
  /// meanwhile.
  void lose(int other, int error, Clock::time_point now) {
    known(other).kind = error == 0 ? PeerEvidence::Kind::closed : PeerEvidence::Kind::broken;
    known(other).detail = error;
    // One that has been heard in this round may never cast its vote now: another one begins.
    if (cast_) return open(number_ + 1, now);
    begin(now);
  }
  /// The same for a connection for data, while that for control may still work.
  void lose_data(int other, int error, Clock::time_point now) {
    if (known(other).is_well() || known(other).is_quiet())
      known(other) = {PeerEvidence::Kind::data_broken, error};
    begin(now);
  }
  /// A rank has not answered for this long.
  void miss(int other, Milliseconds silence, Clock::time_point now) {
    if (!known(other).is_well() && !known(other).is_quiet()) return;
    known(other) = {PeerEvidence::Kind::silent, static_cast<std::int32_t>(silence.count())};
    begin(now);
  }

  /// Sets whether a probe looks for the process of a rank whose connection is lost: while it does,
  /// this rank's vote waits.
  void look_for(int other, bool is_looked_for) { looked_for_[index(other)] = is_looked_for; }
  void found(int other, PeerEvidence::Process process) {
    look_for(other, false);
    known(other).process = process;
  }

  /// Takes what a partner says of a round.
  void take(int from, const ControlInbox::Message& message, Clock::time_point now) {
    const auto number = static_cast<std::uint32_t>(message.frame.extra);
    const auto ahead = static_cast<std::int32_t>(number - number_);
    if (ahead > 0) open(number, now);
    if (ahead < 0) return;
    if (is_open()) has_spoken_[index(from)] = 1;
    if (message.frame.type == ControlFrame::Type::vote && number_ != 0)
      take_vote(from, message.frame.value, message.text);
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
    pass_votes_on();
    if (!is_open()) return std::nullopt;
    if (!cast_ && (now >= due() || has_heard_all())) cast();
    const bool is_late = cast_ && now >= due();
    if (!cast_ || (!is_late && !votes_.are_complete())) return std::nullopt;
    auto verdict = votes_.verdict();
    if (!verdict) {
      close();
      if (has_lost_any()) begin(now);  // since this rank has cast its vote
    }
    if (verdict && !is_late && votes_.judge() != channel_.rank()) return std::nullopt;
    return verdict;
  }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  [[nodiscard]] PeerEvidence& known(int rank) { return known_[index(rank)]; }

  // By rank.
  struct Relay {
    std::string vote{};             // as it has come
    std::vector<char> is_known_by;  // by the number of the partner
  };

  void begin(Clock::time_point now) {
    if (!is_open()) open(number_ + 1, now);
  }

  // In place of an earlier one.
  void open(std::uint32_t number, Clock::time_point now) {
    number_ = number;
    begin_ = now;
    cast_ = false;
    votes_.clear();
    has_spoken_.assign(known_.size(), 0);
    relays_.assign(known_.size(), {{}, std::vector<char>(channel_.partners().size())});
    to_relay_.clear();
    channel_.tell_partners(frame_of(ControlFrame::Type::doubt));
    for (const int other : channel_.partners()) {
      if (channel_.peer(other).gone) continue;
      channel_.ask(other, now);
      first_questions_[index(other)] = channel_.peer(other).questions;
    }
  }

  void close() {
    begin_.reset();
    cast_ = false;
    votes_.clear();
    for (PeerEvidence& evidence : known_)
      if (evidence.is_quiet()) evidence = {};
  }

  [[nodiscard]] ControlFrame frame_of(ControlFrame::Type type, int value = -1) const noexcept {
    return {.type = type, .value = value, .extra = static_cast<std::int32_t>(number_)};
  }

  void take_vote(int from, int voter, std::string_view text) {
    if (voter < 0 || voter >= channel_.size() || voter == channel_.rank()) return;
    Relay& relay = relays_[index(voter)];
    const auto& partners = channel_.partners();
    const auto place = std::lower_bound(partners.begin(), partners.end(), from) - partners.begin();
    relay.is_known_by[static_cast<std::size_t>(place)] = 1;
    if (!relay.vote.empty()) return;
    auto vote = decode_vote(text, known_.size());
    if (!vote) return;
    relay.vote = text;
    to_relay_.push_back(voter);
    if (is_open()) votes_.add(voter, std::move(*vote));
  }

  // Later, because most partners have it from others by then.
  void pass_votes_on() {
    const auto& partners = channel_.partners();
    for (const int voter : to_relay_)
      for (std::size_t i = 0; i < partners.size(); ++i)
        if (Relay& relay = relays_[index(voter)]; partners[i] != voter && !relay.is_known_by[i])
          channel_.tell(partners[i], frame_of(ControlFrame::Type::vote, voter), relay.vote);
    to_relay_.clear();
  }

  // It has answered the question, or taken part unasked: only the way to it may be cut, and not the
  // way back.
  [[nodiscard]] bool has_heard(int other) const {
    const ControlChannel::Peer& p = std::as_const(channel_).peer(other);
    return !p.gone && (p.answers >= first_questions_[index(other)] || has_spoken_[index(other)]);
  }

  [[nodiscard]] bool has_heard_all() const {
    for (const int other : channel_.partners()) {
      if (std::as_const(channel_).peer(other).goodbye) continue;
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

  [[nodiscard]] Vote own_vote() const {
    Vote vote = known_;
    vote[index(channel_.rank())] = {PeerEvidence::Kind::heard};
    for (const int other : channel_.partners()) {
      PeerEvidence& evidence = vote[index(other)];
      const ControlChannel::Peer& p = std::as_const(channel_).peer(other);
      const bool is_missed = evidence.kind == PeerEvidence::Kind::silent;
      constexpr PeerEvidence heard{PeerEvidence::Kind::heard};
      if (p.goodbye)
        evidence = {PeerEvidence::Kind::left};
      else if (has_heard(other) && evidence.kind != PeerEvidence::Kind::data_broken)
        evidence = {PeerEvidence::Kind::heard};
      else if (evidence.kind == PeerEvidence::Kind::data_broken && !has_heard(other))
        evidence.kind =
            evidence.detail == 0 ? PeerEvidence::Kind::closed : PeerEvidence::Kind::broken;
      else if (!p.gone && !has_heard(other) && evidence.kind != PeerEvidence::Kind::silent)
        evidence = {PeerEvidence::Kind::unanswered};
      if (p.was_in_circle && !p.answered && !p.goodbye && (is_missed || evidence != heard))
        evidence = {PeerEvidence::Kind::narrow};
    }
    return vote;
  }

  void cast() {
    cast_ = true;
    const Vote vote = own_vote();
    votes_.add(channel_.rank(), vote);
    channel_.tell_partners(frame_of(ControlFrame::Type::vote, channel_.rank()), encode_vote(vote));
  }

  ControlChannel& channel_;
  std::vector<PeerEvidence> known_;  // by rank; unanswered: nothing bad
  std::vector<std::int32_t> first_questions_ = std::vector<std::int32_t>(known_.size());
  std::vector<char> has_spoken_;
  std::vector<char> looked_for_ = std::vector<char>(known_.size());
  VoteTally votes_;
  std::vector<Relay> relays_;  // of this round, also when it is over
  std::vector<int> to_relay_;  // the ranks whose votes are to be passed on
  std::uint32_t number_ = 0;
  std::optional<Clock::time_point> begin_;
  bool cast_ = false;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

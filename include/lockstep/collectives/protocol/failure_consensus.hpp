// How the ranks find out together which one has failed.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/protocol/control_channel.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/partners.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// What one rank knows of another.
struct PeerEvidence {
  enum class Kind : char {
    heard = 'h',        ///< it has answered
    left = 'l',         ///< it has ended, in order
    data_broken = 'd',  ///< it answers; a data connection is closed (detail 0) or broken (errno)
    closed = 'c',       ///< its connection is closed
    broken = 'b',       ///< its connection is broken; detail: errno
    silent = 's',       ///< it has not answered for detail ms
    narrow = 'n',       ///< the same, since large questions are asked
    unanswered = 'u',   ///< it has not answered yet, but was asked only now
  };
  enum class Process : char {
    unknown = '?',
    lives = '+',    ///< it answers at its port
    closes = '~',   ///< a process closes calls of its port: it, as it leaves, or a successor
    ended = '-',    ///< no process has its port, or a different one
    refused = '!',  ///< its port, on another machine, refuses calls
  };

  Kind kind = Kind::unanswered;
  std::int32_t detail = 0;
  Process process = Process::unknown;

  friend bool operator==(const PeerEvidence&, const PeerEvidence&) = default;

  [[nodiscard]] bool is_heard() const noexcept {
    return kind == Kind::heard || kind == Kind::data_broken;
  }
  [[nodiscard]] bool is_well() const noexcept { return kind == Kind::heard || kind == Kind::left; }
  [[nodiscard]] bool is_quiet() const noexcept {
    return kind == Kind::silent || kind == Kind::narrow || kind == Kind::unanswered;
  }
};

/// A rank's evidence about all ranks, by rank; about itself: heard. It votes on its partners (see
/// are_partners). About other ranks it can only know that they are silent; otherwise they are
/// unanswered.
using Vote = std::vector<PeerEvidence>;

/// "hhb-104u12s30000": for each rank the kind, then what is known about its process, then the
/// detail; a run of unanswered ranks is written once, with its length.
[[nodiscard]] inline std::string encode_vote(const Vote& vote) {
  std::string text;
  for (std::size_t i = 0; i < vote.size();) {
    const PeerEvidence& evidence = vote[i];
    std::size_t alike = 1;
    while (evidence == PeerEvidence{} && i + alike < vote.size() &&
           vote[i + alike] == PeerEvidence{})
      ++alike;
    i += alike;
    text += static_cast<char>(evidence.kind);
    if (evidence.process != PeerEvidence::Process::unknown)
      text += static_cast<char>(evidence.process);
    if (alike > 1)
      text += concat({alike});
    else if (evidence.detail != 0)
      text += concat({evidence.detail});
  }
  return text;
}

/// Nothing when it is no vote of `size` ranks.
[[nodiscard]] inline std::optional<Vote> decode_vote(std::string_view text, std::size_t size) {
  constexpr std::string_view kinds = "hldcbsnu", processes = "+~-!";
  Vote vote;
  for (std::size_t i = 0; i < text.size();) {
    if (kinds.find(text[i]) == kinds.npos || vote.size() == size) return std::nullopt;
    PeerEvidence& evidence = vote.emplace_back();
    evidence.kind = static_cast<PeerEvidence::Kind>(text[i++]);
    if (i < text.size() && processes.find(text[i]) != processes.npos)
      evidence.process = static_cast<PeerEvidence::Process>(text[i++]);
    if (i == text.size() || text[i] < '0' || text[i] > '9') continue;
    const auto [end, error] =
        std::from_chars(text.data() + i, text.data() + text.size(), evidence.detail);
    if (error != std::errc{}) return std::nullopt;
    i = static_cast<std::size_t>(end - text.data());
    if (evidence.kind != PeerEvidence::Kind::unanswered) continue;
    const auto alike = static_cast<std::size_t>(std::exchange(evidence.detail, 0));
    if (evidence != PeerEvidence{} || alike == 0 || alike > size - vote.size() + 1)
      return std::nullopt;
    vote.resize(vote.size() + alike - 1);
  }
  if (vote.size() != size) return std::nullopt;
  return vote;
}

/// The votes that a rank has, and the verdict that follows from them. Two ranks with the same
/// votes come to the same verdict.
///
/// A rank that most of its partners do not hear has failed. If there is no such rank, two ranks
/// have lost each other although others hear both: the connection between them is at fault, and
/// neither rank is blamed.
class VoteTally {
 public:
  VoteTally(int rank, std::vector<std::string> names)
      : rank_(rank), names_(std::move(names)), votes_(names_.size()) {
    for (int distance = 1; distance < size(); ++distance)
      if (are_partners(0, distance, size())) distances_.push_back(distance);
  }

  void clear() {
    for (auto& vote : votes_) vote.reset();
  }
  void add(int from, Vote vote) { votes_[index(from)] = std::move(vote); }
  [[nodiscard]] bool has(int from) const { return votes_[index(from)].has_value(); }

  /// Whether the votes of all ranks that this one hears, itself or through others, have come.
  [[nodiscard]] bool are_complete() const {
    // The most common case comes first: this is called after each of many votes.
    if (has(rank_) && !all_partners_of(rank_, [&](int other) {
          return !evidence(rank_, other).is_heard() || has(other);
        }))
      return false;
    for (const int other : reached())
      if (!has(other)) return false;
    return true;
  }

  /// The rank that pronounces the verdict when the votes are complete: the lowest one that hears
  /// all of its partners that can be reached, so that they hear it, and pass it on.
  [[nodiscard]] int judge() const {
    const std::vector<int> all = reached();
    std::vector<char> is_reached(votes_.size());
    for (const int other : all) is_reached[index(other)] = 1;
    for (const int candidate : all)
      if (has(candidate) && all_partners_of(candidate, [&](int other) {
            return !is_reached[index(other)] || evidence(candidate, other).is_heard();
          }))
        return candidate;
    return all.front();
  }

  /// Empty when all ranks are well.
  [[nodiscard]] std::optional<CollectiveFailure> verdict() const {
    const auto is_narrow = [](const PeerEvidence& h) {
      return h.kind == PeerEvidence::Kind::narrow;
    };
    if (auto network = first_disconnected(is_narrow)) return network;
    if (hears_none()) return CollectiveFailure{.failed_rank = rank_, .reason = hears_no_worker};
    std::vector<int> lost;
    int worst = -1, most = 0;
    for (int x = 0; x < size(); ++x) {
      const auto [against, voters] = count(x);
      if (2 * against <= voters) continue;
      lost.push_back(x);
      if (against <= most) continue;
      worst = x;
      most = against;
    }
    if (worst >= 0) {
      const PeerEvidence evidence = evidence_against(worst);
      if (size() == 2 && (evidence.process == PeerEvidence::Process::lives ||
                          evidence.process == PeerEvidence::Process::closes))
        return disconnected(1 - worst, worst, evidence);
      return CollectiveFailure{.failed_rank = worst,
                               .reason = reason(evidence) + as_well(lost, worst)};
    }
    return first_disconnected([](const PeerEvidence& h) { return !h.is_well(); });
  }

 private:
  template <class Condition>
  [[nodiscard]] std::optional<CollectiveFailure> first_disconnected(Condition condition) const {
    for (int a = 0; a < size(); ++a)
      for (int b = 0; b < size(); ++b)
        if (has(a) && are_partners(a, b, size()) && condition(evidence(a, b)))
          return disconnected(a, b, evidence(a, b));
    return std::nullopt;
  }

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  [[nodiscard]] int size() const { return static_cast<int>(votes_.size()); }
  [[nodiscard]] const PeerEvidence& evidence(int by, int of) const {
    return (*votes_[index(by)])[index(of)];
  }

  template <class Condition>
  [[nodiscard]] bool all_partners_of(int rank, Condition condition) const {
    for (const int distance : distances_) {
      const int other = rank + distance;
      if (!condition(other < size() ? other : other - size())) return false;
    }
    return true;
  }

  // In the order of the ranks; at least this one.
  [[nodiscard]] std::vector<int> reached() const {
    std::vector<char> is_reached(votes_.size());
    is_reached[index(rank_)] = 1;
    std::vector<int> result{rank_};
    for (std::size_t i = 0; i < result.size(); ++i)
      if (const int by = result[i]; has(by))
        (void)all_partners_of(by, [&](int of) {
          if (!is_reached[index(of)] && evidence(by, of).is_heard()) {
            is_reached[index(of)] = 1;
            result.push_back(of);
          }
          return true;
        });
    std::sort(result.begin(), result.end());
    return result;
  }

  // How many partners of a rank do not hear it, and how many have voted on it.
  [[nodiscard]] std::pair<int, int> count(int x) const {
    int against = 0, voters = 0;
    (void)all_partners_of(x, [&](int by) {
      if (!has(by)) return true;
      ++voters;
      against += !evidence(by, x).is_heard() && evidence(by, x).kind != PeerEvidence::Kind::left;
      return true;
    });
    return {against, voters};
  }

  // Whether this rank hears none of at least two partners, though none closed its connection. Nor
  // does it hear one from which no vote comes: the way was cut after that one had spoken.
  [[nodiscard]] bool hears_none() const {
    return size() >= 3 && has(rank_) && all_partners_of(rank_, [&](int other) {
             const PeerEvidence& h = evidence(rank_, other);
             return h.is_quiet() || (h.is_heard() && !has(other));
           });
  }

  // The most telling fact that any vote has: the end of the process, else of a connection, else
  // silence.
  [[nodiscard]] PeerEvidence evidence_against(int x) const {
    const auto weight = [](const PeerEvidence& h) {
      const int of_kind = h.kind == PeerEvidence::Kind::closed   ? 3
                          : h.kind == PeerEvidence::Kind::broken ? 2
                          : h.kind == PeerEvidence::Kind::silent ? 1
                                                                 : 0;
      return of_kind + (h.process == PeerEvidence::Process::closes ? 5 : 0) +
             (h.process == PeerEvidence::Process::lives ? 10 : 0) +
             (h.process == PeerEvidence::Process::refused ? 20 : 0) +
             (h.process == PeerEvidence::Process::ended ? 30 : 0);
    };
    PeerEvidence result;
    int heaviest = -1;
    for (int by = 0; by < size(); ++by) {
      if (by == x || !has(by) || evidence(by, x).is_heard()) continue;  // also of no partner
      const PeerEvidence& h = evidence(by, x);
      const bool is_longer = h.kind == PeerEvidence::Kind::silent && h.detail > result.detail;
      if (weight(h) > heaviest || (weight(h) == heaviest && is_longer)) {
        result = h;
        heaviest = weight(h);
      }
    }
    return result;
  }

  [[nodiscard]] static std::string fault(int error) {
    return error == EBADMSG ? tls_refuses : std::generic_category().message(error);
  }

  [[nodiscard]] static std::string what_happened(const PeerEvidence& h) {
    switch (h.kind) {
      case PeerEvidence::Kind::silent:
        return was_silent(h.detail);
      case PeerEvidence::Kind::unanswered:
      case PeerEvidence::Kind::narrow:
        return does_not_answer;
      case PeerEvidence::Kind::broken:
      case PeerEvidence::Kind::data_broken:
        if (h.detail != 0) return lost_the_connection(fault(h.detail));
        break;
      case PeerEvidence::Kind::closed:
      case PeerEvidence::Kind::heard:
      case PeerEvidence::Kind::left:
        break;
    }
    return closed_the_connection;
  }

  [[nodiscard]] static std::string reason(const PeerEvidence& h) {
    const char* process = "";
    if (h.process == PeerEvidence::Process::ended) process = process_has_ended;
    if (h.process == PeerEvidence::Process::refused) process = port_refuses;
    if (h.process == PeerEvidence::Process::lives) process = process_lives;
    if (h.process == PeerEvidence::Process::closes) process = port_closes;
    return what_happened(h) + process;
  }

  // "; lost as well: worker 2 (c:3), worker 5 (f:6)", if so. The text must fit into a message, as
  // all ranks must have the same.
  [[nodiscard]] std::string as_well(const std::vector<int>& lost, int named) const {
    constexpr std::size_t most = 16, longest = ControlFrame::longest - 300;  // with the reason
    std::string text;
    std::size_t more = 0;
    for (std::size_t i = 0, count = 0; i < lost.size(); ++i) {
      if (lost[i] == named) continue;
      const std::string& name = names_[index(lost[i])];
      if (more > 0 || count == most || text.size() + name.size() > longest)
        ++more;
      else
        text += (count++ == 0 ? lost_as_well : ", ") + name;
    }
    return more == 0 ? text : text + concat({" and ", more, " more"});
  }

  [[nodiscard]] CollectiveFailure disconnected(int a, int b, const PeerEvidence& h) const {
    const char* const others = size() > 2                                   ? others_hear_both
                               : h.process == PeerEvidence::Process::closes ? one_or_successor
                                                                            : both_live;
    const std::string& first = names_[index(std::min(a, b))];
    const std::string& second = names_[index(std::max(a, b))];
    if (h.kind == PeerEvidence::Kind::narrow)
      return {.reason = network_between(first, second, loses_large_packets)};
    if (h.is_quiet())
      return {
          .reason = network_between(
              first, second, is_cut(names_[index(b)], what_happened(h), names_[index(a)], others))};
    return {.reason = connection_broke(first, second, h.detail != 0 ? fault(h.detail) : was_closed,
                                       others)};
  }

  int rank_;
  std::vector<std::string> names_;  // by rank
  std::vector<int> distances_;      // of a rank's partners, round the circle
  std::vector<std::optional<Vote>> votes_;
};

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
    // One that has been heard in this round may never cast its vote now: another round begins.
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

/// The failure that all ranks name: the first one that any thread of this rank knows of.
class FailureCause {
 public:
  /// Returns the one that counts.
  CollectiveFailure set(CollectiveFailure failure) {
    const std::lock_guard lock(mutex_);
    if (!is_set_) failure_ = std::move(failure);
    is_set_ = true;
    return failure_;
  }

  [[nodiscard]] bool is_set() const noexcept { return is_set_; }
  [[nodiscard]] CollectiveFailure get() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> is_set_ = false;
  CollectiveFailure failure_;
};

/// The whole of a rank's part in noticing a failure, from bytes and ends of connections to the
/// cause that all ranks name. After bytes have come, a connection has ended or due() has passed,
/// the owner calls conclude(). Used by one thread at a time.
class FailureWatch {
 public:
  using Clock = ControlChannel::Clock;
  using Milliseconds = std::chrono::milliseconds;

  /// `names` must stay.
  FailureWatch(const WorkerNames& names, int rank, const ActivityBoard& board, FailureCause& cause,
               ControlChannel::Send send)
      : names_(names),
        cause_(cause),
        channel_(rank, names.size(), board, std::move(send)),
        consensus_(channel_, all_of(names)) {
    channel_.set_on_vote(
        [this](int from, const ControlInbox::Message& message, Clock::time_point now) {
          if (!cause_.is_set()) consensus_.take(from, message, now);
        });
  }
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

  [[nodiscard]] ControlChannel& channel() noexcept { return channel_; }
  [[nodiscard]] const ControlChannel& channel() const noexcept { return channel_; }

  /// Returns the cause that all ranks will name, and tells it to them.
  CollectiveFailure settle(CollectiveFailure failure) {
    if (failure.failed_rank >= 0 && failure.failed_rank < channel_.size()) {
      failure.address = names_.address(failure.failed_rank);
      failure.worker = names_.number(failure.failed_rank);
    }
    failure = cause_.set(std::move(failure));
    channel_.report(failure);
    return failure;
  }

  /// Takes bytes that a partner has sent. Returns whether a waiting thread should know: a failure,
  /// or a rank has ended, or all have.
  [[nodiscard]] bool take(int other, std::string_view bytes, Clock::time_point now) {
    const int endings = channel_.endings();
    if (channel_.take(other, bytes, now)) return channel_.endings() != endings;
    settle({.failed_rank = other, .reason = spoke_nonsense});
    return true;
  }

  /// A peer's control connection is closed (error 0) or broken (errno). Returns whether that is a
  /// loss that counts; then a probe may look for the peer's process. It does not after a goodbye,
  /// nor after a report: all reports are read first.
  [[nodiscard]] bool lose(int other, int error, Clock::time_point now) {
    channel_.peer(other).gone = true;
    if (channel_.peer(other).goodbye || cause_.is_set() || channel_.reported()) return false;
    consensus_.lose(other, error, now);
    return true;
  }

  /// See FailureConsensus.
  void look_for(int other, bool is_looked_for) { consensus_.look_for(other, is_looked_for); }
  void found(int other, PeerEvidence::Process process) { consensus_.found(other, process); }

  /// The waiting thread of this rank has heard nothing from a peer for this long, or has lost a
  /// connection for data.
  void miss(int other, Milliseconds silence, Clock::time_point now) {
    if (!cause_.is_set()) consensus_.miss(other, silence, now);
  }
  void lose_data(int other, int error, Clock::time_point now) {
    if (!cause_.is_set()) consensus_.lose_data(other, error, now);
  }

  /// Whether a peer's report waits for conclude().
  [[nodiscard]] bool has_report() const noexcept { return channel_.reported().has_value(); }
  /// When to conclude() in any case.
  [[nodiscard]] Clock::time_point due() const noexcept {
    return cause_.is_set() ? Clock::time_point::max() : consensus_.due();
  }
  /// Returns whether there is a cause now, and was none.
  [[nodiscard]] bool conclude(Clock::time_point now) {
    if (cause_.is_set()) return false;
    if (has_report()) {
      settle(*channel_.reported());
      return true;
    }
    auto verdict = consensus_.advance(now);
    if (!verdict) return false;
    settle(std::move(*verdict));
    return true;
  }

 private:
  static std::vector<std::string> all_of(const WorkerNames& names) {
    std::vector<std::string> result;
    result.reserve(static_cast<std::size_t>(names.size()));
    for (int rank = 0; rank < names.size(); ++rank) result.push_back(names(rank));
    return result;
  }

  const WorkerNames& names_;
  FailureCause& cause_;
  ControlChannel channel_;
  FailureConsensus consensus_;
};

}}}  // namespace lockstep::detail

// What several ranks conclude from the peers that each of them hears.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/protocol/control_partners.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/peer_evidence.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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
      if (are_control_partners(0, distance, size())) distances_.push_back(distance);
  }

  void clear() {
    for (auto& vote : votes_) vote.reset();
  }
  void add(int from, Vote vote) { votes_[index(from)] = std::move(vote); }
  [[nodiscard]] bool has(int from) const { return votes_[index(from)].has_value(); }

  /// Whether the votes of all ranks that this one hears, itself or through others, have come.
  [[nodiscard]] bool are_complete() const {
    // Of the most common case, which is asked for after each of many votes.
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
    if (hears_none()) return failed(rank_, hears_no_worker);
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
      return failed(worst, reason(evidence) + as_well(lost, worst));
    }
    return first_disconnected([](const PeerEvidence& h) { return !h.is_well(); });
  }

 private:
  template <class Condition>
  [[nodiscard]] std::optional<CollectiveFailure> first_disconnected(Condition condition) const {
    for (int a = 0; a < size(); ++a)
      for (int b = 0; b < size(); ++b)
        if (has(a) && are_control_partners(a, b, size()) && condition(evidence(a, b)))
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
    if (error == EBADMSG)
      return "TLS refuses what has come: it was changed on the way, or not sent by the peer";
    return std::generic_category().message(error);
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

  // "; lost as well: worker 2 (c:3), worker 5 (f:6)", if so. The text must fit into a message,
  // as all ranks shall have the same.
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
        text += (count++ == 0 ? "; lost as well: " : ", ") + name;
    }
    return more == 0 ? text : text + concat({" and ", more, " more"});
  }

  [[nodiscard]] static CollectiveFailure failed(int rank, std::string reason) {
    CollectiveFailure failure;
    failure.failed_rank = rank;
    failure.reason = std::move(reason);
    return failure;
  }

  [[nodiscard]] CollectiveFailure disconnected(int a, int b, const PeerEvidence& h) const {
    const char* const others = size() > 2                                   ? others_hear_both
                               : h.process == PeerEvidence::Process::closes ? one_or_successor
                                                                            : both_live;
    const std::string& first = names_[index(std::min(a, b))];
    const std::string& second = names_[index(std::max(a, b))];
    if (h.kind == PeerEvidence::Kind::narrow)
      return failed(-1,
                    concat({"the network between ", first, " and ", second, loses_large_packets}));
    if (h.is_quiet())
      return failed(
          -1, concat({"the network between ", first, " and ", second, " is cut: ", names_[index(b)],
                      " ", what_happened(h), ", as ", names_[index(a)], " hears it", others}));
    return failed(-1, concat({"the connection between ", first, " and ", second, " broke: ",
                              h.detail != 0 ? fault(h.detail) : "it was closed", others}));
  }

  int rank_;
  std::vector<std::string> names_;  // by rank
  std::vector<int> distances_;      // of a rank's partners, round the circle
  std::vector<std::optional<Vote>> votes_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

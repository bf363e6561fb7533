// Which ranks a rank hears, and what several ranks conclude from it.
#pragma once

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/collectives/error.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What one rank knows of another one.
struct Hearing {
  enum class Kind : char {
    heard = 'h',        ///< it has answered
    left = 'l',         ///< it has ended, in order
    data_broken = 'd',  ///< it answers; a data connection is closed (detail 0) or broken (errno)
    closed = 'c',       ///< its connection is closed
    broken = 'b',       ///< its connection is broken; detail: errno
    silent = 's',       ///< it has not answered for detail ms
    unanswered = 'u',   ///< it has not answered yet, but was asked only now
  };
  enum class Process : char {
    unknown = '?',
    lives = '+',  ///< a process answers at its port
    ended = '-',  ///< no process has its port
  };

  Kind kind = Kind::unanswered;
  std::int32_t detail = 0;
  Process process = Process::unknown;

  friend bool operator==(const Hearing&, const Hearing&) = default;

  [[nodiscard]] bool is_heard() const noexcept {
    return kind == Kind::heard || kind == Kind::data_broken;
  }
  [[nodiscard]] bool is_well() const noexcept { return kind == Kind::heard || kind == Kind::left; }
  [[nodiscard]] bool is_quiet() const noexcept {
    return kind == Kind::silent || kind == Kind::unanswered;
  }
};

/// What a rank knows of all ranks, by rank; of itself: heard.
using Ballot = std::vector<Hearing>;

/// "hhb-104s30000": for each rank the kind, then what is known of its process, then the detail.
[[nodiscard]] inline std::string encode_ballot(const Ballot& ballot) {
  std::string text;
  for (const Hearing& hearing : ballot) {
    text += static_cast<char>(hearing.kind);
    if (hearing.process != Hearing::Process::unknown) text += static_cast<char>(hearing.process);
    if (hearing.detail != 0) text += concat({hearing.detail});
  }
  return text;
}

/// Nothing when it is no ballot of `size` ranks.
[[nodiscard]] inline std::optional<Ballot> decode_ballot(std::string_view text, std::size_t size) {
  constexpr std::string_view kinds = "hldcbsu", processes = "+-";
  Ballot ballot;
  for (std::size_t i = 0; i < text.size();) {
    if (kinds.find(text[i]) == kinds.npos || ballot.size() == size) return std::nullopt;
    Hearing& hearing = ballot.emplace_back();
    hearing.kind = static_cast<Hearing::Kind>(text[i++]);
    if (i < text.size() && processes.find(text[i]) != processes.npos)
      hearing.process = static_cast<Hearing::Process>(text[i++]);
    if (i == text.size() || text[i] < '0' || text[i] > '9') continue;
    const auto [end, error] =
        std::from_chars(text.data() + i, text.data() + text.size(), hearing.detail);
    if (error != std::errc{}) return std::nullopt;
    i = static_cast<std::size_t>(end - text.data());
  }
  if (ballot.size() != size) return std::nullopt;
  return ballot;
}

/// The ballots that a rank has, and the verdict that follows from them. Two ranks with the same
/// ballots come to the same verdict.
///
/// A rank that most of the others do not hear has failed. If there is no such rank, two ranks have
/// lost each other although others hear both: the connection between them is at fault, and neither
/// rank is blamed.
class Ballots {
 public:
  Ballots(int rank, std::vector<std::string> names)
      : rank_(rank), names_(std::move(names)), ballots_(names_.size()) {}

  void clear() {
    for (auto& ballot : ballots_) ballot.reset();
  }
  void add(int from, Ballot ballot) { ballots_[index(from)] = std::move(ballot); }
  [[nodiscard]] bool has(int from) const { return ballots_[index(from)].has_value(); }

  /// Whether the ballots of all ranks that this one hears, itself or through others, have come.
  [[nodiscard]] bool are_complete() const {
    // Of the most common case, which is asked for after each of many ballots.
    for (int other = 0; has(rank_) && other < size(); ++other)
      if (hearing(rank_, other).is_heard() && !has(other)) return false;
    for (const int other : reached())
      if (!has(other)) return false;
    return true;
  }

  /// The rank that pronounces the verdict when the ballots are complete: the lowest one that hears
  /// all reachable ranks, so that all of them hear it.
  [[nodiscard]] int judge() const {
    const std::vector<int> all = reached();
    for (const int candidate : all) {
      bool hears_all = has(candidate);
      for (const int other : all)
        hears_all = hears_all && (other == candidate || hearing(candidate, other).is_heard());
      if (hears_all) return candidate;
    }
    return all.front();
  }

  /// Empty when all ranks are well.
  [[nodiscard]] std::optional<CollectiveFailure> verdict() const {
    if (hears_nobody())
      return failed(
          rank_, "hears none of the other ranks any more: its network is cut, or all of them hang");
    int worst = -1, most = 0;
    for (int x = 0; x < size(); ++x) {
      const auto [against, voters] = count(x);
      if (2 * against > voters && against > most) {
        worst = x;
        most = against;
      }
    }
    if (worst >= 0) {
      const Hearing evidence = evidence_against(worst);
      if (size() == 2 && evidence.process == Hearing::Process::lives)
        return disconnected(1 - worst, worst, evidence);
      return failed(worst, reason(evidence));
    }
    for (int a = 0; a < size(); ++a)
      for (int b = 0; b < size(); ++b)
        if (a != b && has(a) && !hearing(a, b).is_well()) return disconnected(a, b, hearing(a, b));
    return std::nullopt;
  }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  [[nodiscard]] int size() const { return static_cast<int>(ballots_.size()); }
  [[nodiscard]] const Hearing& hearing(int by, int of) const {
    return (*ballots_[index(by)])[index(of)];
  }

  // In the order of the ranks; at least this one.
  [[nodiscard]] std::vector<int> reached() const {
    std::vector<char> is_reached(ballots_.size());
    is_reached[index(rank_)] = 1;
    for (bool grows = true; grows;) {
      grows = false;
      for (int by = 0; by < size(); ++by)
        for (int of = 0; of < size() && is_reached[index(by)] && has(by); ++of)
          if (!is_reached[index(of)] && hearing(by, of).is_heard())
            is_reached[index(of)] = grows = true;
    }
    std::vector<int> result;
    for (int r = 0; r < size(); ++r)
      if (is_reached[index(r)]) result.push_back(r);
    return result;
  }

  // How many ranks do not hear a rank, and how many have voted on it.
  [[nodiscard]] std::pair<int, int> count(int x) const {
    int against = 0, voters = 0;
    for (int by = 0; by < size(); ++by) {
      if (by == x || !has(by)) continue;
      ++voters;
      against += !hearing(by, x).is_heard() && hearing(by, x).kind != Hearing::Kind::left;
    }
    return {against, voters};
  }

  // Whether this rank hears none of at least two others, though none closed its connection. Nor
  // does it hear one from which no ballot comes: the way was cut after that one had spoken.
  [[nodiscard]] bool hears_nobody() const {
    if (size() < 3 || !has(rank_)) return false;
    for (int other = 0; other < size(); ++other) {
      if (other == rank_) continue;
      const Hearing& h = hearing(rank_, other);
      if (!h.is_quiet() && (!h.is_heard() || has(other))) return false;
    }
    return true;
  }

  // The most telling fact that any ballot has: the end of the process, else of a connection, else
  // silence.
  [[nodiscard]] Hearing evidence_against(int x) const {
    const auto weight = [](const Hearing& h) {
      const int of_kind = h.kind == Hearing::Kind::closed   ? 3
                          : h.kind == Hearing::Kind::broken ? 2
                          : h.kind == Hearing::Kind::silent ? 1
                                                            : 0;
      return of_kind + (h.process == Hearing::Process::lives ? 10 : 0) +
             (h.process == Hearing::Process::ended ? 20 : 0);
    };
    Hearing result;
    int heaviest = -1;
    for (int by = 0; by < size(); ++by) {
      if (by == x || !has(by) || hearing(by, x).is_heard()) continue;
      const Hearing& h = hearing(by, x);
      const bool is_longer = h.kind == Hearing::Kind::silent && h.detail > result.detail;
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

  [[nodiscard]] static std::string what_happened(const Hearing& h) {
    switch (h.kind) {
      case Hearing::Kind::silent:
        return concat(
            {"was silent for more than ", h.detail, " ms (CommunicationOptions::timeout)"});
      case Hearing::Kind::unanswered:
        return "does not answer";
      case Hearing::Kind::broken:
      case Hearing::Kind::data_broken:
        if (h.detail != 0) return concat({"lost the connection (", fault(h.detail), ")"});
        break;
      case Hearing::Kind::closed:
      case Hearing::Kind::heard:
      case Hearing::Kind::left:
        break;
    }
    return "closed the connection";
  }

  [[nodiscard]] static std::string reason(const Hearing& h) {
    return what_happened(h) + (h.process == Hearing::Process::ended   ? "; its process has ended"
                               : h.process == Hearing::Process::lives ? "; its process lives"
                                                                      : "");
  }

  [[nodiscard]] static CollectiveFailure failed(int rank, std::string reason) {
    CollectiveFailure failure;
    failure.failed_rank = rank;
    failure.reason = std::move(reason);
    return failure;
  }

  [[nodiscard]] CollectiveFailure disconnected(int a, int b, const Hearing& h) const {
    const char* const others = size() > 2 ? "; other ranks hear both" : "; both processes live";
    const std::string& first = names_[index(std::min(a, b))];
    const std::string& second = names_[index(std::max(a, b))];
    if (h.is_quiet())
      return failed(
          -1, concat({"the network between ", first, " and ", second, " is cut: ", names_[index(b)],
                      " ", what_happened(h), ", as ", names_[index(a)], " hears it", others}));
    return failed(-1, concat({"the connection between ", first, " and ", second, " broke: ",
                              h.detail != 0 ? fault(h.detail) : "it was closed", others}));
  }

  int rank_;
  std::vector<std::string> names_;  // by rank
  std::vector<std::optional<Ballot>> ballots_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

// What one rank knows of each other one, and the text for it.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What one rank knows of another one.
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
    ended = '-',    ///< no process has its port, or another one
    refused = '!',  ///< the same as far as can be seen, on another machine
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

/// What a rank knows of all ranks, by rank; of itself: heard. It votes on its partners (see
/// are_control_partners). Of others it can know no more than a silence: they are unanswered else.
using Vote = std::vector<PeerEvidence>;

/// "hhb-104u12s30000": for each rank the kind, then what is known of its process, then the detail;
/// of several unanswered ones in a row, how many there are.
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

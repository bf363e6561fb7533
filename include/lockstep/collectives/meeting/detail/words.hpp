// What ranks say when they meet, apart from any socket.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "lockstep/collectives/meeting/seal.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

// A message is a length (4 bytes, little-endian) and as many bytes of text: fields, each with a new
// line behind it, and with a secret a proof in hexadecimal digits as the last one.
//
//     guest                                  host (rank 0)
//     hello(secret?, nonce)              ->
//                                        <-  hello(secret?, nonce), proof of both nonces
//     claim(rank, size, job, host, port) ->
//                                        <-  welcome(addresses), when all are there,
//                                            or refusal(kind, why)
//
// Each proof is over both hellos, so that none is of use a second time, and over its own message.

[[nodiscard]] inline std::optional<int> read_whole(std::string_view text) noexcept {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

struct MeetingClaim {
  int rank = 0;
  int size = 0;
  std::string job{};
  std::string host{};  ///< empty: that from which the call comes
  int port = 0;

  [[nodiscard]] std::string text() const {
    return concat({rank, "\n", size, "\n", printable(job, 500), "\n", host, "\n", port, "\n"});
  }
  [[nodiscard]] static std::optional<MeetingClaim> read(std::string_view message) {
    const auto fields = fields_of(message);
    if (fields.size() != 5) return std::nullopt;
    const auto rank = read_whole(fields[0]), size = read_whole(fields[1]),
               port = read_whole(fields[4]);
    if (!rank || !size || !port || *port < 1 || *port > 65'535) return std::nullopt;
    return MeetingClaim{*rank, *size, fields[2], fields[3], *port};
  }
};

/// What the host says in the end.
struct MeetingAnswer {
  enum class Kind { welcome, other_job, refused };

  Kind kind = Kind::welcome;
  std::vector<std::string> lines{};  ///< the addresses, or why not

  [[nodiscard]] std::string text() const {
    std::string text = kind == Kind::welcome     ? "welcome\n"
                       : kind == Kind::other_job ? "other job\n"
                                                 : "refused\n";
    for (const std::string& line : lines) text += line + "\n";
    return text;
  }
  [[nodiscard]] static std::optional<MeetingAnswer> read(std::string_view message) {
    auto fields = fields_of(message);
    if (fields.size() < 2) return std::nullopt;
    MeetingAnswer answer;
    if (fields[0] == "welcome")
      answer.kind = Kind::welcome;
    else if (fields[0] == "other job")
      answer.kind = Kind::other_job;
    else if (fields[0] == "refused")
      answer.kind = Kind::refused;
    else
      return std::nullopt;
    answer.lines.assign(fields.begin() + 1, fields.end());
    return answer;
  }
};

/// "worker 1, 3": those without an address, 20 of them at most.
[[nodiscard]] inline std::string missing_ranks(const std::vector<std::string>& addresses) {
  std::string text;
  int shown = 0;
  for (std::size_t rank = 0; rank < addresses.size(); ++rank)
    if (addresses[rank].empty() && shown++ < 20)
      text += concat({text.empty() ? "worker " : ", ", rank});
  return shown <= 20 ? text : concat({text, " and ", shown - 20, " more"});
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

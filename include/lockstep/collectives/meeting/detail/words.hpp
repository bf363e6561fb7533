// What ranks say when they meet, apart from any socket.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "lockstep/collectives/protocol/authentication.hpp"
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

inline constexpr std::string_view meeting_magic = "lockstep-meeting-1";

[[nodiscard, gnu::cold]] inline std::string hex_text(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += digits[static_cast<unsigned char>(c) >> 4];
    text += digits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

/// The fields of a message; empty when it is none.
[[nodiscard, gnu::cold]] inline std::vector<std::string> fields_of(std::string_view message) {
  std::vector<std::string> fields;
  while (!message.empty()) {
    const auto end = message.find('\n');
    if (end == std::string_view::npos) return {};
    fields.emplace_back(message.substr(0, end));
    message.remove_prefix(end + 1);
  }
  return fields;
}

[[nodiscard]] inline std::optional<int> read_whole(std::string_view text) noexcept {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

struct MeetingHello {
  bool has_secret = false;
  std::string nonce{};  ///< in hexadecimal digits

  [[nodiscard]] static MeetingHello make(const ClusterSecret& secret) {
    return {.has_secret = secret.is_set(), .nonce = hex_text(make_nonce())};
  }
  [[nodiscard]] std::string text() const {
    return concat({meeting_magic, "\n", has_secret ? 1 : 0, "\n", nonce, "\n"});
  }
  [[nodiscard]] static std::optional<MeetingHello> read(std::string_view message) {
    const auto fields = fields_of(message);
    if (fields.size() != 3 || fields[0] != meeting_magic || fields[2].size() != 2 * nonce_bytes)
      return std::nullopt;
    return MeetingHello{.has_secret = fields[1] == "1", .nonce = fields[2]};
  }
};

/// Adds the sender's proof to a message, and looks at those of the other side.
class MeetingSeal {
 public:
  MeetingSeal(const ClusterSecret& secret, const MeetingHello& guest, const MeetingHello& host)
      : secret_(secret), hellos_(guest.text() + host.text()) {}

  [[nodiscard]] std::string sealed(std::string_view role, std::string message) const {
    if (!secret_.is_set()) return message;
    const std::string proof = secret_.prove(role, hellos_ + message);
    return message + hex_text(proof) + "\n";
  }
  /// Without the proof; nothing when it is wrong.
  [[nodiscard]] std::optional<std::string> opened(std::string_view role,
                                                  std::string_view message) const {
    if (!secret_.is_set()) return std::string(message);
    constexpr std::size_t size = 2 * proof_bytes + 1;
    if (message.size() < size) return std::nullopt;
    const std::string_view content = message.substr(0, message.size() - size);
    const std::string_view digits = message.substr(message.size() - size, 2 * proof_bytes);
    if (!secret_.accepts(bytes_of(digits), role, concat({hellos_, content}))) return std::nullopt;
    return std::string(content);
  }

 private:
  [[nodiscard]] static std::string bytes_of(std::string_view digits) {
    const auto value = [](char c) {
      return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= '0' && c <= '9' ? c - '0' : 0;
    };
    std::string bytes;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
      bytes += static_cast<char>(value(digits[i]) << 4 | value(digits[i + 1]));
    return bytes;
  }

  ClusterSecret secret_;
  std::string hellos_;
};

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

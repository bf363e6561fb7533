// Proofs between two processes that open a conversation: that each knows the cluster's secret.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/protocol/hello.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

inline constexpr std::string_view meeting_magic = Hello::elastic_magic;

[[nodiscard, gnu::cold]] inline std::string hex_of(std::string_view bytes) {
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

struct MeetingHello {
  bool has_secret = false;
  std::string nonce{};  ///< in hexadecimal digits

  [[nodiscard]] static MeetingHello make(const ClusterSecret& secret) {
    return {.has_secret = secret.is_set(), .nonce = hex_of(make_nonce())};
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
    return message + hex_of(proof) + "\n";
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

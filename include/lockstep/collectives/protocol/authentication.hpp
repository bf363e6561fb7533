// Proofs that a worker knows the cluster's secret.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

inline constexpr std::size_t nonce_bytes = 32;
inline constexpr std::size_t proof_bytes = 32;

/// Bytes that no one can foresee, from the operating system. Throws Error when it has none.
[[nodiscard]] std::string make_nonce();

/// What only the workers of a cluster know. It never leaves the process and stands in no message.
class ClusterSecret {
 public:
  /// None: the workers take each other's word.
  ClusterSecret() = default;
  /// An empty text is none. Throws ConfigurationError when this program was built without OpenSSL.
  explicit ClusterSecret(std::string secret);
  /// `given`, or else the environment variable LOCKSTEP_CLUSTER_SECRET, or else the contents of the
  /// regular file that LOCKSTEP_CLUSTER_SECRET_FILE names, without the end of the last line. Throws
  /// ConfigurationError as above; when a variable is empty or the file cannot be read, because a
  /// missing secret must not open the cluster; when both variables are set; and when the secret is
  /// shorter than `shortest`, and so can be guessed.
  [[nodiscard]] static ClusterSecret given_or_from_environment(const std::string& given);

  static constexpr std::size_t shortest = 16;  ///< bytes

  [[nodiscard]] bool is_set() const noexcept { return !secret_.empty(); }

  /// HMAC-SHA256 (RFC 2104) of `role`, a zero byte and `transcript`, under the secret: proof_bytes
  /// long. The role keeps what one side has sent from being of use to the other.
  [[nodiscard]] std::string prove(std::string_view role, std::string_view transcript) const;
  /// Whether `proof` is that. Takes the same time wherever the first wrong byte is.
  [[nodiscard]] bool accepts(std::string_view proof, std::string_view role,
                             std::string_view transcript) const;

  /// A key of 32 bytes for one purpose, by HKDF-SHA256 (RFC 5869). From keys, neither the secret
  /// nor the key for another purpose can be found.
  [[nodiscard]] std::string derive(std::string_view purpose) const;

 private:
  std::string secret_;
};

/// Adds the sender's proof to each message that follows a handshake, and looks at those of the
/// other side. What was said in the handshake is part of it, so that no proof is of use a second
/// time. Without a secret, messages are as they are.
class Seal {
 public:
  Seal(ClusterSecret secret, std::string transcript)
      : secret_(std::move(secret)), transcript_(std::move(transcript)) {}

  [[nodiscard]] std::string sealed(std::string_view role, const std::string& message) const {
    return secret_.is_set() ? message + secret_.prove(role, transcript_ + message) : message;
  }
  /// Without the proof; nothing when it is wrong.
  [[nodiscard]] std::optional<std::string> opened(std::string_view role,
                                                  std::string_view message) const {
    if (!secret_.is_set()) return std::string(message);
    if (message.size() < proof_bytes) return std::nullopt;
    std::string content(message.substr(0, message.size() - proof_bytes));
    if (!secret_.accepts(message.substr(content.size()), role, transcript_ + content))
      return std::nullopt;
    return content;
  }

 private:
  ClusterSecret secret_;
  std::string transcript_;
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/protocol/authentication.ipp"
#endif

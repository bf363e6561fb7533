// How connections between workers are encrypted.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// TLS 1.3 on every connection between workers, by OpenSSL. What two workers of one machine share
/// in memory does not leave it, and is not encrypted.
enum class Tls : std::uint8_t {
  off,  ///< as the environment variable LOCKSTEP_TLS says, which has these names; else none
  /// The key comes from the cluster's secret (see Rendezvous::secret), which all workers must have.
  /// A process that knows the secret may take any rank.
  pre_shared_key,
  /// Each worker has a certificate for its own rank, and knows the authority that signs all of
  /// them: see TlsFiles. In an elastic world, whose ranks change, the rank that it has in the
  /// configured cluster.
  certificates,
};

[[nodiscard]] constexpr const char* to_string(Tls tls) noexcept {
  return tls == Tls::pre_shared_key ? "pre_shared_key"
         : tls == Tls::certificates ? "certificates"
                                    : "off";
}

/// The files of Tls::certificates, in PEM format. "{rank}" in a name stands for the worker's rank.
/// An empty name: that in the environment variable beside it.
struct TlsFiles {
  /// The certificate of the authority that has signed all workers' certificates, and no others:
  /// LOCKSTEP_TLS_AUTHORITY.
  std::string authority{};
  /// This worker's own certificate, with intermediate ones, if any, behind it:
  /// LOCKSTEP_TLS_CERTIFICATE. It must have the DNS name "rank-N.lockstep" among its alternative
  /// names, N being the worker's rank.
  std::string certificate{};
  /// The certificate's private key, without a passphrase: LOCKSTEP_TLS_KEY.
  std::string key{};
};

}  // namespace lockstep::inline LOCKSTEP_ABI

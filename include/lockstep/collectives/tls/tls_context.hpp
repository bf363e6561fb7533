// What all TLS connections of a process have in common.
#pragma once

#include <memory>
#include <string>

#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/core/config.hpp"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// TLS 1.3, nothing older, with AES-128-GCM or ChaCha20-Poly1305 and an ephemeral Diffie-Hellman
/// exchange: what is recorded today cannot be read with a key that is stolen tomorrow. No session
/// is resumed, and no data is sent before the handshake has ended, so that nothing can be replayed.
/// Any thread may use it.
class TlsContext {
 public:
  /// Null without TLS. Throws ConfigurationError when the program was built without OpenSSL, the
  /// secret is missing, or a file cannot be used: it is not there, the certificate has expired, is
  /// not signed by the authority or is another task's, the key belongs to another certificate.
  [[nodiscard]] static std::shared_ptr<const TlsContext> make(const TlsSettings& settings,
                                                              const ClusterSecret& secret,
                                                              TlsIdentity own);
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ~TlsContext() = default;

  /// Whether a peer's task is proved by its certificate.
  [[nodiscard]] bool has_certificates() const noexcept {
    return settings_.tls == Tls::certificates;
  }
  [[nodiscard]] const TlsSettings& settings() const noexcept { return settings_; }
  /// The task of this process.
  [[nodiscard]] const TlsIdentity& own() const noexcept { return own_; }
  /// The pre-shared key, empty with certificates.
  [[nodiscard]] const std::string& key() const noexcept { return key_; }
  [[nodiscard]] ssl_ctx_st* native() const noexcept { return context_.get(); }

 private:
  TlsContext(const TlsSettings& settings, TlsIdentity own);
  void use_key(const ClusterSecret& secret);
  void use_files(const TlsFiles& files);

  TlsSettings settings_;
  TlsIdentity own_;
  std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)> context_;
  std::string key_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/tls/tls_context.ipp"
#endif

#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/collectives/tls/detail/certificate.hpp"
#include "lockstep/collectives/tls/tls_context.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#endif

namespace lockstep::inline LOCKSTEP_ABI::detail {

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL

/// Names the key to the peer. There is one for the whole cluster.
inline constexpr std::string_view tls_key_name = "lockstep cluster secret";
/// What sessions belong to, in OpenSSL's eyes.
inline constexpr unsigned char tls_session_place[] = {'l', 'o', 'c', 'k', 's', 't', 'e', 'p'};

/// OpenSSL's form of the key: the session that it would go on from. Null when memory is short.
LOCKSTEP_INLINE SSL_SESSION* tls_session_of_key(SSL* ssl) {
  static constexpr unsigned char aes_128_gcm_sha256[2] = {0x13, 0x01};
  const auto* const context =
      static_cast<const TlsContext*>(SSL_CTX_get_app_data(::SSL_get_SSL_CTX(ssl)));
  const std::string& key = context->key();
  const SSL_CIPHER* const cipher = ::SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
  std::unique_ptr<SSL_SESSION, void (*)(SSL_SESSION*)> session(::SSL_SESSION_new(),
                                                               ::SSL_SESSION_free);
  if (session == nullptr || cipher == nullptr ||
      ::SSL_SESSION_set1_master_key(
          session.get(), reinterpret_cast<const unsigned char*>(key.data()), key.size()) != 1 ||
      ::SSL_SESSION_set1_id_context(session.get(), tls_session_place, sizeof tls_session_place) !=
          1 ||
      ::SSL_SESSION_set_cipher(session.get(), cipher) != 1 ||
      ::SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1)
    return nullptr;
  return session.release();
}

/// The caller's side: offers the key.
LOCKSTEP_INLINE int offer_tls_key(SSL* ssl, const EVP_MD* digest, const unsigned char** name,
                                  std::size_t* size, SSL_SESSION** session) {
  *session = nullptr;
  // After a retry the callee has chosen the hash already; all suites of the context have this one.
  if (digest != nullptr && EVP_MD_type(digest) != NID_sha256) return 1;
  *session = tls_session_of_key(ssl);
  *name = reinterpret_cast<const unsigned char*>(tls_key_name.data());
  *size = tls_key_name.size();
  return *session != nullptr ? 1 : 0;
}

/// The callee's side: knows one key. A caller with another one, or without, gets no further,
/// because there is no certificate either.
LOCKSTEP_INLINE int find_tls_key(SSL* ssl, const unsigned char* name, std::size_t size,
                                 SSL_SESSION** session) {
  *session = nullptr;
  if (std::string_view(reinterpret_cast<const char*>(name), size) != tls_key_name) return 1;
  *session = tls_session_of_key(ssl);
  return *session != nullptr ? 1 : 0;
}

LOCKSTEP_INLINE TlsContext::TlsContext(const TlsSettings& settings, TlsIdentity own)
    : settings_(settings), own_(own), context_(::SSL_CTX_new(::TLS_method()), ::SSL_CTX_free) {
  ::ERR_clear_error();
  SSL_CTX* const context = context_.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
      ::SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") !=
          1 ||
      ::SSL_CTX_set_session_id_context(context, tls_session_place, sizeof tls_session_place) != 1 ||
      ::SSL_CTX_set_num_tickets(context, 0) != 1)
    throw Error(concat({"OpenSSL offers no TLS 1.3: ", openssl_reason()}));
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  // A record that the system does not take at once is offered again with what has come since.
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

LOCKSTEP_INLINE void TlsContext::use_key(const ClusterSecret& secret) {
  if (!secret.is_set())
    throw ConfigurationError(
        concat({"TLS by a pre-shared key needs the cluster's secret, from which the key comes: set "
                "LOCKSTEP_CLUSTER_SECRET ",
                settings_.with_servers ? "in all processes" : "on all workers",
                " (`openssl rand -hex 32` makes a good one)"}));
  key_ = secret.derive("lockstep: TLS 1.3 between workers");
  SSL_CTX_set_app_data(context_.get(), this);
  ::SSL_CTX_set_psk_use_session_callback(context_.get(), offer_tls_key);
  ::SSL_CTX_set_psk_find_session_callback(context_.get(), find_tls_key);
  // A callee that has a certificate instead is refused: there is no authority to trust.
  ::SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
}

LOCKSTEP_INLINE void TlsContext::use_files(const TlsFiles& files) {
  SSL_CTX* const context = context_.get();
  const auto refuse = [](const char* what, const std::string& name, std::string_view why) {
    return ConfigurationError(concat({"TLS: the ", what, " ", name, " ", why}));
  };
  const auto must_be_file = [&](const char* what, const std::string& name) {
    struct stat about {};
    if (::stat(name.c_str(), &about) != 0)
      throw refuse(what, name, concat({"cannot be opened: ", std::strerror(errno)}));
    if (!S_ISREG(about.st_mode)) throw refuse(what, name, "is no regular file");
    ::ERR_clear_error();
  };
  const char* what = "authority's certificate";
  must_be_file(what, files.authority);
  if (::SSL_CTX_load_verify_locations(context, files.authority.c_str(), nullptr) != 1)
    throw refuse(what, files.authority, concat({"cannot be used: ", openssl_reason()}));
  what = "certificate";
  must_be_file(what, files.certificate);
  if (::SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1)
    throw refuse(what, files.certificate, concat({"cannot be used: ", openssl_reason()}));
  // There is no one to type a passphrase.
  ::SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return -1; });
  must_be_file("private key", files.key);
  if (::SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1)
    throw refuse("private key", files.key,
                 concat({"cannot be used: ", openssl_reason(),
                         "; it must be in PEM format, without a passphrase, and belong to ",
                         files.certificate}));
  X509* const own = ::SSL_CTX_get0_certificate(context);
  if (!is_certificate_of(own, own_))
    throw refuse(what, files.certificate,
                 concat({"is for ", names_in(own), ", and this ", own_.kind(), " needs one for ",
                         own_.dns_name(), ", the name of its ",
                         own_.is_server() ? "task" : "place in the cluster"}));
  const std::unique_ptr<X509_STORE_CTX, void (*)(X509_STORE_CTX*)> check(::X509_STORE_CTX_new(),
                                                                         ::X509_STORE_CTX_free);
  STACK_OF(X509)* chain = nullptr;
  SSL_CTX_get0_chain_certs(context, &chain);
  if (check == nullptr ||
      ::X509_STORE_CTX_init(check.get(), ::SSL_CTX_get_cert_store(context), own, chain) != 1)
    throw Error(concat({"OpenSSL cannot check a certificate: ", openssl_reason()}));
  if (::X509_verify_cert(check.get()) != 1)
    throw refuse(what, files.certificate,
                 certificate_fault(::X509_STORE_CTX_get_error(check.get()),
                                   ::X509_STORE_CTX_get_current_cert(check.get())));
  ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
}

LOCKSTEP_INLINE std::shared_ptr<const TlsContext> TlsContext::make(const TlsSettings& settings,
                                                                   const ClusterSecret& secret,
                                                                   TlsIdentity own) {
  if (settings.tls == Tls::off) return nullptr;
  const std::shared_ptr<TlsContext> context(new TlsContext(settings, own));
  if (settings.tls == Tls::certificates)
    context->use_files(settings.files);
  else
    context->use_key(secret);
  return context;
}

#else

LOCKSTEP_INLINE std::shared_ptr<const TlsContext> TlsContext::make(const TlsSettings& settings,
                                                                   const ClusterSecret&,
                                                                   TlsIdentity) {
  if (settings.tls == Tls::off) return nullptr;
  throw ConfigurationError(concat(
      {"TLS is asked for (", settings.options(),
       "::tls or LOCKSTEP_TLS), and this program was built without OpenSSL; install it (Debian, "
       "Ubuntu: apt-get install libssl-dev), define LOCKSTEP_HAS_OPENSSL=1 and link ssl and "
       "crypto, which lockstep's CMake target does when it finds OpenSSL"}));
}

#endif

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

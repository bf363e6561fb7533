#pragma once

#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/protocol/handshake.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/core/text.hpp"

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#endif

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL

/// Names in full, and only among the alternative ones.
inline constexpr unsigned certificate_name_flags =
    X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT;

[[nodiscard, gnu::cold]] inline bool is_certificate_of(X509* certificate,
                                                       const TlsIdentity& identity) {
  const std::string name = identity.dns_name();
  return ::X509_check_host(certificate, name.data(), name.size(), certificate_name_flags,
                           nullptr) == 1;
}

/// "rank-1.lockstep, rank-2.lockstep"
[[nodiscard, gnu::cold]] inline std::string names_in(const X509* certificate) {
  const std::unique_ptr<GENERAL_NAMES, void (*)(GENERAL_NAMES*)> names(
      static_cast<GENERAL_NAMES*>(
          ::X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
      ::GENERAL_NAMES_free);
  std::string text;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_DNS) continue;
    const std::string_view dns(
        reinterpret_cast<const char*>(::ASN1_STRING_get0_data(name->d.dNSName)),
        static_cast<std::size_t>(::ASN1_STRING_length(name->d.dNSName)));
    text += concat({text.empty() ? "" : ", ", printable(dns, 100)});
  }
  return text.empty() ? "no DNS name" : printable(text, 300);
}

/// "Nov 22 21:00:00 2026 GMT"
[[nodiscard, gnu::cold]] inline std::string time_text(const ASN1_TIME* time) {
  const std::unique_ptr<BIO, int (*)(BIO*)> text(::BIO_new(::BIO_s_mem()), ::BIO_free);
  char* bytes = nullptr;
  if (text == nullptr || ::ASN1_TIME_print(text.get(), time) != 1) return "an unknown time";
  const long size = BIO_get_mem_data(text.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

/// Why a certificate is not accepted (`error` is one of X509_V_ERR_*), as the end of "a certificate
/// that ...".
[[nodiscard, gnu::cold]] inline std::string certificate_fault(int error, const X509* certificate) {
  if (error == X509_V_ERR_CERT_HAS_EXPIRED && certificate != nullptr)
    return concat({"has expired, by this machine's clock (it was valid until ",
                   time_text(::X509_get0_notAfter(certificate)), "); make a new one"});
  if (error == X509_V_ERR_CERT_NOT_YET_VALID && certificate != nullptr)
    return concat({"is not valid before ", time_text(::X509_get0_notBefore(certificate)),
                   "; is this machine's clock right?"});
  return concat({"is not accepted (", ::X509_verify_cert_error_string(error),
                 "); the authority of LOCKSTEP_TLS_AUTHORITY must have signed it"});
}

/// What OpenSSL says of the last error of this thread.
[[nodiscard, gnu::cold]] inline std::string openssl_reason() {
  const char* const reason = ::ERR_reason_error_string(::ERR_peek_last_error());
  return reason != nullptr ? reason : "OpenSSL gives no reason";
}

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

/// The callee's side: knows one key. A caller with another key, or without, gets no further,
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

LOCKSTEP_INLINE bool TlsWire::flush() {
  while (sent < out.size()) {
    const ssize_t n = ::send(socket, out.data() + sent, out.size() - sent, no_signal);
    if (n >= 0)
      sent += static_cast<std::size_t>(n);
    else if (errno != EINTR) {
      if (errno != EAGAIN && errno != EWOULDBLOCK) error = errno;
      return false;
    }
  }
  out.clear();
  sent = 0;
  return true;
}

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL

// OpenSSL's own BIO for sockets would raise SIGPIPE.

LOCKSTEP_INLINE int read_tls_wire(BIO* bio, char* bytes, int size) {
  auto& wire = *static_cast<TlsWire*>(::BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  ssize_t n = -1;
  do n = ::recv(wire.socket, bytes, static_cast<std::size_t>(size), 0);
  while (n < 0 && errno == EINTR);
  if (n == 0) wire.ended = true;
  if (n > 0 && !std::exchange(wire.heard, true))
    wire.plain = bytes[0] != first_of_alert && bytes[0] != first_of_handshake;
  if (n >= 0) return static_cast<int>(n);
  if (errno == EAGAIN || errno == EWOULDBLOCK)
    BIO_set_retry_read(bio);
  else
    wire.error = errno;
  return -1;
}

LOCKSTEP_INLINE int write_tls_wire(BIO* bio, const char* bytes, int size) {
  auto& wire = *static_cast<TlsWire*>(::BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (wire.corked || !wire.out.empty()) {
    try {
      wire.out.insert(wire.out.end(), bytes, bytes + size);
      return size;
    } catch (...) {  // out of memory: OpenSSL must not see it
      wire.error = ENOMEM;
      return -1;
    }
  }
  ssize_t n = -1;
  do n = ::send(wire.socket, bytes, static_cast<std::size_t>(size), no_signal);
  while (n < 0 && errno == EINTR);
  if (n >= 0) return static_cast<int>(n);
  if (errno == EAGAIN || errno == EWOULDBLOCK)
    BIO_set_retry_write(bio);
  else
    wire.error = errno;
  return -1;
}

LOCKSTEP_INLINE long control_tls_wire(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

/// How OpenSSL reads and writes a TlsWire.
LOCKSTEP_INLINE const BIO_METHOD* tls_wire_method() {
  static const std::unique_ptr<BIO_METHOD, void (*)(BIO_METHOD*)> method = [] {
    std::unique_ptr<BIO_METHOD, void (*)(BIO_METHOD*)> made(
        ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket of lockstep"),
        ::BIO_meth_free);
    if (made == nullptr) throw Error("OpenSSL has no memory left");
    ::BIO_meth_set_read(made.get(), read_tls_wire);
    ::BIO_meth_set_write(made.get(), write_tls_wire);
    ::BIO_meth_set_ctrl(made.get(), control_tls_wire);
    return made;
  }();
  return method.get();
}

LOCKSTEP_INLINE TlsSession::TlsSession(std::shared_ptr<const TlsContext> context, int socket,
                                       std::optional<TlsIdentity> peer)
    : context_(std::move(context)),
      ssl_(::SSL_new(context_->native()), ::SSL_free),
      wire_{.socket = socket},
      peer_(peer) {
  BIO* const bio = ssl_ == nullptr ? nullptr : ::BIO_new(tls_wire_method());
  if (bio == nullptr) throw Error("OpenSSL has no memory left for a connection");
  ::BIO_set_data(bio, &wire_);
  ::BIO_set_init(bio, 1);
  ::SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), this);
  ::SSL_set_verify(ssl_.get(), ::SSL_get_verify_mode(ssl_.get()), judge_certificate);
}

LOCKSTEP_INLINE std::unique_ptr<TlsSession> TlsSession::call(
    std::shared_ptr<const TlsContext> context, int socket, TlsIdentity peer) {
  if (context == nullptr) return nullptr;
  std::unique_ptr<TlsSession> session(new TlsSession(std::move(context), socket, peer));
  SSL* const ssl = session->ssl_.get();
  ::SSL_set_connect_state(ssl);
  ::SSL_set_hostflags(ssl, certificate_name_flags);
  if (session->context_->has_certificates() && ::SSL_set1_host(ssl, peer.dns_name().c_str()) != 1)
    throw Error("OpenSSL has no memory left for a connection");
  return session;
}

LOCKSTEP_INLINE std::unique_ptr<TlsSession> TlsSession::answer(
    std::shared_ptr<const TlsContext> context, int socket) {
  if (context == nullptr) return nullptr;
  std::unique_ptr<TlsSession> session(new TlsSession(std::move(context), socket, {}));
  ::SSL_set_accept_state(session->ssl_.get());
  session->state_ = State::wants_read;
  return session;
}

/// OpenSSL calls it for each certificate of the peer's chain, and when a name does not fit.
LOCKSTEP_INLINE int TlsSession::judge_certificate(int accepted, X509_STORE_CTX* store) {
  if (accepted != 0) return accepted;
  auto& self = *static_cast<TlsSession*>(SSL_get_app_data(static_cast<const SSL*>(
      ::X509_STORE_CTX_get_ex_data(store, ::SSL_get_ex_data_X509_STORE_CTX_idx()))));
  X509* const certificate = ::X509_STORE_CTX_get_current_cert(store);
  const int error = ::X509_STORE_CTX_get_error(store);
  // The peer shall not hear that its authority is unknown (by the alert), but that the two have no
  // proof in common.
  if (!self.context_->has_certificates())
    ::X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
  try {
    if (!self.context_->has_certificates())
      self.problem_ =
          shows_certificate(self.context_->own().kind(), self.context_->settings().remedy());
    else if (error == X509_V_ERR_HOSTNAME_MISMATCH && certificate != nullptr && self.peer_)
      self.problem_ = shows_certificate_of_another(self.peer_->is_server(), names_in(certificate),
                                                   self.peer_->dns_name());
    else
      self.problem_ = shows_bad_certificate(certificate_fault(error, certificate));
  } catch (...) {  // out of memory: OpenSSL must not see it
  }
  return 0;
}

// A caller without TLS is told so by an alert ("protocol version"), which is never encrypted. What
// is left unread would cut it off.
LOCKSTEP_INLINE void TlsSession::answer_in_plain() const noexcept {
  constexpr unsigned char alert[] = {first_of_alert, 3, 3, 0, 2, 2, 70};
  char rest[4096];
  (void)!::recv(wire_.socket, rest, sizeof rest, 0);
  (void)!::send(wire_.socket, alert, sizeof alert, no_signal);
}

LOCKSTEP_INLINE TlsSession::State TlsSession::advance() {
  if (state_ == State::established || state_ == State::failed) return state_;
  ::ERR_clear_error();
  const int result = ::SSL_do_handshake(ssl_.get());
  switch (::SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_NONE:
      // With a key, nothing else must have proved which peer it is.
      if (context_->has_certificates() || ::SSL_session_reused(ssl_.get()) == 1)
        return state_ = State::established;
      problem_ = has_not_proved;
      break;
    case SSL_ERROR_WANT_READ:
      return state_ = State::wants_read;
    case SSL_ERROR_WANT_WRITE:
      return state_ = State::wants_write;
    default:
      if (problem_.empty()) problem_ = handshake_problem();
      if (wire_.plain && !peer_) answer_in_plain();
  }
  broken_ = EBADMSG;
  return state_ = State::failed;
}

LOCKSTEP_INLINE std::string TlsSession::handshake_problem() const {
  const unsigned long error = ::ERR_peek_error();
  if (error == 0) return {};  // the connection is closed, or broken
  const char* const other_settings = context_->settings().remedy();
  const char* const own = context_->own().kind();
  if (wire_.plain) return speaks_without_tls(own, other_settings);
  switch (ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
      return has_other_secret(own);
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
      if (!context_->has_certificates() && peer_) return has_other_secret(own);  // so says a callee
      break;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return shows_no_certificate(other_settings);
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return refuses_certificate(own, ", which has expired by its clock; make a new one");
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      return refuses_certificate(own, ": it has another LOCKSTEP_TLS_AUTHORITY");
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
      return refuses_certificate(own, ", and says itself why");
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
      return speaks_other_tls(own);
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return has_no_proof_in_common(own, other_settings);
    default:
      break;
  }
  return fails_in_tls_handshake(openssl_reason());
}

LOCKSTEP_INLINE std::string TlsSession::denies(int worker) const {
  if (!context_->has_certificates()) return {};
  const std::unique_ptr<X509, void (*)(X509*)> certificate(::SSL_get_peer_certificate(ssl_.get()),
                                                           ::X509_free);
  const TlsIdentity claimed(worker);
  if (certificate != nullptr && is_certificate_of(certificate.get(), claimed)) return {};
  return claims_with_certificate(
      worker, certificate == nullptr ? "no one" : names_in(certificate.get()), claimed.dns_name());
}

LOCKSTEP_INLINE ssize_t TlsSession::fail(int result) {
  switch (::SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      errno = EAGAIN;
      return -1;
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    case SSL_ERROR_SYSCALL:
      if (wire_.ended) return 0;
      errno = wire_.error != 0 ? wire_.error : EIO;
      return -1;
    default:
      break;
  }
  // A callee judges the caller's certificate when the caller has already come to the end of its
  // handshake, which hears of it here.
  problem_ = handshake_problem();
  errno = broken_ = EBADMSG;
  return -1;
}

LOCKSTEP_INLINE ssize_t TlsSession::read(void* bytes, std::size_t size) {
  if (broken_ != 0) {
    errno = broken_;
    return -1;
  }
  ::ERR_clear_error();
  std::size_t n = 0;
  const int result = ::SSL_read_ex(ssl_.get(), bytes, size, &n);
  return result == 1 ? static_cast<ssize_t>(n) : fail(result);
}

LOCKSTEP_INLINE ssize_t TlsSession::write(const void* bytes, std::size_t size) {
  if (broken_ != 0) {
    errno = broken_;
    return -1;
  }
  if (accepted_ == 0) {
    wire_.corked = true;
    const ssize_t failure = encrypt(static_cast<const char*>(bytes), std::min(size, batch_bytes));
    wire_.corked = false;
    if (failure != 0) return failure;
  }
  if (!wire_.flush()) {
    errno = wire_.error != 0 ? wire_.error : EAGAIN;
    return -1;
  }
  return static_cast<ssize_t>(std::exchange(accepted_, 0));
}

LOCKSTEP_INLINE ssize_t TlsSession::encrypt(const char* bytes, std::size_t size) {
  while (accepted_ < size) {
    ::ERR_clear_error();
    if (records_ >= records_per_key_) {
      records_ = 0;
      ::SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    }
    std::size_t n = 0;
    const int result =
        ::SSL_write_ex(ssl_.get(), bytes + accepted_, std::min(size - accepted_, record_bytes), &n);
    if (result != 1) return fail(result);
    ++records_;
    accepted_ += n;
  }
  return 0;
}

LOCKSTEP_INLINE bool TlsSession::has_pending() const noexcept {
  return ::SSL_has_pending(ssl_.get()) == 1;
}

LOCKSTEP_INLINE void TlsSession::expect_long_messages() {
  constexpr std::size_t bytes = std::size_t{128} << 10;
  ::SSL_free_buffers(ssl_.get());  // they come back with the new size
  ::SSL_set_default_read_buffer_len(ssl_.get(), bytes);
  ::SSL_set_read_ahead(ssl_.get(), 1);
}

#else

// Without OpenSSL there is no context, and hence no session.
LOCKSTEP_INLINE std::unique_ptr<TlsSession> TlsSession::call(std::shared_ptr<const TlsContext>, int,
                                                             TlsIdentity) {
  return nullptr;
}
LOCKSTEP_INLINE std::unique_ptr<TlsSession> TlsSession::answer(std::shared_ptr<const TlsContext>,
                                                               int) {
  return nullptr;
}
LOCKSTEP_INLINE TlsSession::State TlsSession::advance() { return state_ = State::failed; }
LOCKSTEP_INLINE std::string TlsSession::denies(int) const { return {}; }
LOCKSTEP_INLINE ssize_t TlsSession::fail(int error) {
  errno = error;
  return -1;
}
LOCKSTEP_INLINE ssize_t TlsSession::read(void*, std::size_t) { return fail(ENOTSUP); }
LOCKSTEP_INLINE ssize_t TlsSession::write(const void*, std::size_t) { return fail(ENOTSUP); }
LOCKSTEP_INLINE bool TlsSession::has_pending() const noexcept { return false; }
LOCKSTEP_INLINE void TlsSession::expect_long_messages() {}

#endif

LOCKSTEP_INLINE SecureStream::Opening SecureStream::open(Handshake& handshake) const {
  if (tls != nullptr && tls->advance() != TlsSession::State::established) {
    errno = 0;
    return tls->state() == TlsSession::State::failed ? Opening::ended : Opening::goes_on;
  }
  const auto stop = [](ssize_t n) {
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Opening::goes_on;
    if (n == 0) errno = 0;
    return Opening::ended;
  };
  char chunk[4096];
  for (;;) {
    while (!handshake.out().empty()) {
      const ssize_t n = send(handshake.out());
      if (n <= 0) {
        const Opening opening = stop(n);
        const int error = errno;
        if (opening == Opening::ended && tls != nullptr) (void)tls->read(chunk, 1);  // may say why
        errno = error;
        return opening;
      }
      handshake.sent(static_cast<std::size_t>(n));
    }
    if (handshake.outcome() != Handshake::Outcome::open) return Opening::over;
    const ssize_t n = receive(chunk, std::min(sizeof chunk, handshake.wanted()));
    if (n <= 0) return stop(n);
    handshake.take({chunk, static_cast<std::size_t>(n)});
  }
}

}}}  // namespace lockstep::detail

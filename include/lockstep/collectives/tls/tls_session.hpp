// The encryption of connections.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/net/descriptor.hpp"

struct ssl_ctx_st;         // OpenSSL's SSL_CTX
struct ssl_st;             // OpenSSL's SSL
struct x509_store_ctx_st;  // OpenSSL's X509_STORE_CTX

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

class Handshake;

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

/// The socket of a session, as it is now.
struct TlsWire {
  int socket;
  int error = 0;       ///< errno of the last call that failed
  bool ended = false;  ///< the peer has closed the connection
  bool heard = false;  ///< something has come
  bool plain = false;  ///< what came first is no TLS
  /// Records wait in `out` for each other, to leave in one call.
  bool corked = false;
  std::vector<char> out{};
  std::size_t sent = 0;  ///< bytes of `out`

  /// Sends `out`. False where some of it has to wait, and where the connection is broken.
  bool flush();
};

/// TLS on a connected socket that does not block. The socket stays the owner's, and must outlive
/// the session. First advance() until the handshake is over; then read() and write() take the place
/// of ::recv and ::send. One thread at a time.
///
/// No end of the stream is announced (close_notify): an orderly end of the work is a message of the
/// protocol, and every other end is a failure, whether the peer or an attacker has cut the
/// connection.
class TlsSession {
 public:
  enum class State { wants_read, wants_write, established, failed };

  /// For the side that has connected, to `peer`. Null where the context is.
  [[nodiscard]] static std::unique_ptr<TlsSession> call(std::shared_ptr<const TlsContext> context,
                                                        int socket, TlsIdentity peer);
  /// For the side that has accepted the connection, the same: see denies().
  [[nodiscard]] static std::unique_ptr<TlsSession> answer(std::shared_ptr<const TlsContext> context,
                                                          int socket);
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;
  ~TlsSession() = default;

  /// Continues the handshake until it would have to wait.
  State advance();
  [[nodiscard]] State state() const noexcept { return state_; }
  /// What is wrong with the peer, as the end of a sentence about it; empty while nothing is, and
  /// when it has only closed the connection.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }
  /// What speaks against the peer being that worker, as problem(); empty when its certificate
  /// proves it, or all have one key.
  [[nodiscard]] std::string denies(int worker) const;

  /// As ::recv: the number of bytes, 0 at the end of the stream, or -1 and errno. EAGAIN: not now;
  /// EBADMSG: what has come was not sent by the peer, or was changed on the way.
  ssize_t read(void* bytes, std::size_t size);
  /// As ::send. After EAGAIN, the same bytes must come first in the next call.
  ssize_t write(const void* bytes, std::size_t size);
  /// Bytes of a write() that travel as one record, and at most how many a write() takes: a system
  /// call for each record costs as much as its encryption.
  static constexpr std::size_t record_bytes = 16384, batch_bytes = 8 * record_bytes;
  /// Whether bytes have been taken from the socket that no read() has returned.
  [[nodiscard]] bool has_pending() const noexcept;

  /// From now on, reads from the socket as much as there is, for messages of many records. Then a
  /// socket with nothing to read does not mean that has_pending() is false.
  void expect_long_messages();
  /// The number of records that a key serves for (by default far fewer than AES-GCM allows: RFC
  /// 8446, 5.5).
  void set_records_per_key(std::uint64_t records) noexcept { records_per_key_ = records; }

 private:
  TlsSession(std::shared_ptr<const TlsContext> context, int socket,
             std::optional<TlsIdentity> peer);

  static int judge_certificate(int accepted, x509_store_ctx_st* store);
  [[nodiscard]] std::string handshake_problem() const;
  void answer_in_plain() const noexcept;
  ssize_t fail(int result);
  ssize_t encrypt(const char* bytes, std::size_t size);  // to `wire_.out`

  std::shared_ptr<const TlsContext> context_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;
  TlsWire wire_;
  std::optional<TlsIdentity> peer_;  // none: not known
  State state_ = State::wants_write;
  std::string problem_;
  int broken_ = 0;  // errno of all further calls
  std::uint64_t records_ = 0;
  std::uint64_t records_per_key_ = std::uint64_t{1} << 23;
  std::size_t accepted_ = 0;  // bytes of a write() that are encrypted and not all sent
};

/// The calls of a connected socket that does not block, plain or with TLS. Owns neither.
struct SecureStream {
  int socket;
  TlsSession* tls;  ///< null: plain

  enum class Opening { goes_on, over, ended };
  /// Continues opening the connection, first TLS and then the handshake, until it would have to
  /// wait. Over: the handshake has its outcome, and all is sent. Ended: TLS refuses the other side,
  /// or the connection is broken: errno says why, 0 where it was closed.
  [[nodiscard]] Opening open(Handshake& handshake) const;
  /// What to wait for. `has_more`: to send.
  [[nodiscard]] short events(bool has_more) const noexcept {
    const bool is_secure = tls == nullptr || tls->state() == TlsSession::State::established;
    const bool writes = is_secure ? has_more : tls->state() == TlsSession::State::wants_write;
    return static_cast<short>(POLLIN | (writes ? POLLOUT : 0));
  }
  /// As ::send and ::recv, but for EINTR.
  [[nodiscard]] ssize_t send(std::string_view bytes) const {
    ssize_t n = -1;
    do
      n = tls != nullptr ? tls->write(bytes.data(), bytes.size())
                         : ::send(socket, bytes.data(), bytes.size(), no_signal);
    while (n < 0 && errno == EINTR);
    return n;
  }
  [[nodiscard]] ssize_t receive(void* bytes, std::size_t size) const {
    ssize_t n = -1;
    do n = tls != nullptr ? tls->read(bytes, size) : ::recv(socket, bytes, size, 0);
    while (n < 0 && errno == EINTR);
    return n;
  }
};

/// Such a socket, and its session.
struct SecureSocket {
  Descriptor socket;
  std::unique_ptr<TlsSession> tls;  ///< null: plain

  [[nodiscard]] SecureStream stream() const noexcept { return {socket.get(), tls.get()}; }
  /// What speaks against the other side being this worker: see TlsSession.
  [[nodiscard]] std::string denies(int worker) const {
    return tls == nullptr ? std::string() : tls->denies(worker);
  }
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/tls/tls_session.ipp"
#endif

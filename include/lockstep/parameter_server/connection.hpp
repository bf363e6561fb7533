// Messages between a worker and a parameter server.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lockstep/collectives/meeting/seal.hpp"
#include "lockstep/collectives/meeting/socket.hpp"
#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/tls/tls_context.hpp"
#include "lockstep/collectives/tls/tls_identity.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What a message is. A worker asks, and the server gives one reply, `reply` or `refusal`; before
/// it, any number of times, `waiting`.
enum class PsMessage : std::uint32_t {
  hello = 1,  ///< of both sides: a MeetingHello
  proof,      ///< of the server, that it knows the secret
  claim,      ///< of the worker, sealed: PsClaim
  begin,      ///< of a fit: PsBegin
  put,        ///< the state of the server's shard, of the chief
  pull,       ///< asks for that state
  step,       ///< PsStep
  finish,     ///< the worker has made all steps of the fit
  goodbye,    ///< the worker will begin no other fit
  alive,      ///< has no reply
  reply,
  waiting,  ///< a text: which ranks the server waits for
  refusal,  ///< a text: why; trying again does not help
};

/// What the server tells a worker that begins a fit.
enum class PsVerdict : std::uint64_t { join, give_state, is_over };

/// Why a connection is of no more use: its end, silence, or bytes that make no sense.
class ConnectionLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The other side has not proved its identity. Another process at the same address may still do so.
class PeerUntrusted : public ConnectionLost {
 public:
  using ConnectionLost::ConnectionLost;
};

/// How the processes of a cluster recognise each other.
struct PsTrust {
  ClusterSecret secret{};
  std::shared_ptr<const TlsContext> tls{};  ///< null: connections are plain
};

/// A process that waits says so after this time, and whenever it has passed again.
inline constexpr std::chrono::seconds ps_report_interval{5};

/// Frames over a socket: a mark, the kind, a number, and the size of what follows. Each call may
/// throw ConnectionLost, after which the connection cannot be used again. One thread receives; one
/// thread at a time sends.
class PsConnection {
 public:
  using Clock = std::chrono::steady_clock;
  using Parts = std::initializer_list<std::span<const std::byte>>;

  struct Head {
    PsMessage kind{};
    std::uint64_t number = 0;  ///< of the worker's step, where it is one
    std::uint64_t size = 0;
  };

  /// `timeout`: how long the other side may be silent.
  PsConnection(MeetingSocket socket, std::chrono::milliseconds timeout);
  /// Called every 5 s in which the other side is waited for, and silent.
  void on_silence(std::function<void(std::chrono::seconds silent)> f) {
    on_silence_ = std::move(f);
  }

  // TLS comes first, if there is any. Both throw PeerUntrusted as well.

  /// For the side that has connected, to `peer`.
  void call(const std::shared_ptr<const TlsContext>& tls, TlsIdentity peer);
  /// For the side that has accepted the connection: see denies().
  void answer(const std::shared_ptr<const TlsContext>& tls);
  /// What speaks against the other side being the worker of this rank; empty when nothing does.
  [[nodiscard]] std::string denies(int rank) const {
    return tls_ == nullptr ? std::string() : tls_->denies(rank);
  }

  /// A deadline for all calls that follow: a stranger may be slow on purpose.
  void limit(Clock::time_point until) noexcept { until_ = until; }
  /// A thread that waits in another call finds the connection lost.
  void shut_down() const noexcept;
  /// Whether the other side has closed its end. (What it has sent before may still be there.)
  [[nodiscard]] bool has_ended() const noexcept;

  void send(PsMessage kind, Parts parts, std::uint64_t number = 0);
  void send(PsMessage kind, std::string_view text) { send(kind, {std::as_bytes(std::span(text))}); }
  /// The next message's head; what follows must be received next.
  [[nodiscard]] Head receive_head();
  void receive(std::span<std::byte> bytes);
  /// The rest of a message of at most `longest` bytes.
  [[nodiscard]] std::string receive_text(const Head& head, std::size_t longest);
  /// Throws unless the message has this many bytes.
  static void expect(const Head& head, std::uint64_t size);

 private:
  void secure(std::unique_ptr<TlsSession> session);
  void send_all(std::span<const std::byte> bytes);
  void receive_all(std::span<std::byte> bytes);
  void wait(short events);
  [[noreturn]] void fail(const char* what) const;
  [[noreturn]] void fail_to_send(const char* what);
  void refuse_tls(std::span<const std::byte> first);
  [[nodiscard]] Clock::time_point deadline() const {
    return std::min(until_, Clock::now() + timeout_);
  }

  MeetingSocket socket_;
  const std::chrono::milliseconds timeout_;
  Clock::time_point until_ = Clock::time_point::max();
  std::function<void(std::chrono::seconds)> on_silence_;
  std::unique_ptr<TlsSession> tls_;
  bool has_heard_ = false;  // a message of the protocol
};

// How a conversation begins: both sides say hello, the server proves that it knows the cluster's
// secret, and the worker claims its place under the same seal. Without a secret, neither is proved.

/// The worker's place, and what must be the same in all processes.
struct PsClaim {
  int rank = 0;
  int workers = 0;
  int server = 0;
  int servers = 0;
  std::int64_t max_staleness = -1;  ///< -1: no limit
  std::uint64_t process = 0;        ///< another number in each process that has the rank

  [[nodiscard]] std::string text() const;
  [[nodiscard]] static PsClaim read(std::string_view message);
};

/// The server's side: returns what the worker claims, and may claim. Throws PeerUntrusted, and
/// tells the worker why where it can.
[[nodiscard]] PsClaim admit(PsConnection& connection, const PsTrust& trust);
/// The worker's side. Throws PeerUntrusted, and ConfigurationError when the server refuses.
void claim_place(PsConnection& connection, const PsTrust& trust, const PsClaim& claim);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/parameter_server/connection.ipp"
#endif

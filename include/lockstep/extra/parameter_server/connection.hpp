// Messages between a worker and a parameter server.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/meeting/conversation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/protocol/handshake.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/traffic.hpp"
#include "lockstep/net/rare_log.hpp"
#include "lockstep/net/socket.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Numbers of 8 bytes, one after the other, with which messages begin.
template <class... Numbers>
[[nodiscard]] std::array<std::byte, 8 * sizeof...(Numbers)> pack_numbers(Numbers... numbers) {
  static_assert(((sizeof(Numbers) == 8) && ...));
  std::array<std::byte, 8 * sizeof...(Numbers)> bytes{};
  std::byte* to = bytes.data();
  ((put_number<8>(to, std::bit_cast<std::uint64_t>(numbers)), to += 8), ...);
  return bytes;
}

template <class... Numbers>
void unpack_numbers(const std::array<std::byte, 8 * sizeof...(Numbers)>& bytes,
                    Numbers&... numbers) {
  const std::byte* from = bytes.data();
  ((numbers = std::bit_cast<Numbers>(get_number<8>(from)), from += 8), ...);
}

inline constexpr std::uint32_t ps_mark = 0x5350'534C;  // "LSPS"
inline constexpr std::size_t ps_longest_text = std::size_t{1} << 16;

inline constexpr std::string_view ps_byte_order =
    std::endian::native == std::endian::little ? "little-endian" : "big-endian";

/// What a message is. A worker asks, and the server gives one reply, `reply` or `refusal`; before
/// it, any number of times, `waiting`.
enum class PsMessage : std::uint32_t {
  claim = 1,  ///< of the worker, after the Handshake and sealed by it: PsClaim
  begin,      ///< of a fit: PsBeginning; number 1: after give_anew of server 0
  put,        ///< the state of the server's shard, of the chief
  pull,       ///< asks for that state
  step,       ///< PsStep
  finish,     ///< the worker has made all steps of the fit
  goodbye,    ///< the worker will begin no other fit; number 1: all have removed their backups
  alive,      ///< has no reply
  reply,
  waiting,  ///< a text: which ranks the server waits for
  refusal,  ///< a text: why; trying again does not help
  settle,   ///< after the end of a fit: PsSettling
  ended,    ///< of the chief: no fit comes; the reply's number is 1 when the backup says so
  cannot,   ///< of the chief, before `begin`: a text: why it does not come to that
};

inline constexpr std::size_t ps_longest_failure = 1 << 15;  ///< bytes of PsMessage::cannot

/// What the server tells a worker that begins a fit.
enum class PsVerdict : std::uint64_t {
  join,
  give_state,
  is_over,
  give_anew,  ///< as give_state: the training of this server's backup has ended, as those of all
};

/// Why a connection is of no more use: its end, silence, or bytes that make no sense.
class ConnectionLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The other side seems to exist, but was silent for too long.
class PeerSilent : public ConnectionLost {
 public:
  using ConnectionLost::ConnectionLost;
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
  PsConnection(Descriptor socket, std::chrono::milliseconds timeout)
      : socket_{std::move(socket), nullptr}, timeout_(timeout) {
    set_option(socket_.socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  }
  /// Called every 5 s in which the other side is waited for, and silent.
  void on_silence(std::function<void(std::chrono::seconds silent)> f) {
    on_silence_ = std::move(f);
  }

  /// TLS comes first, if there is any: for the side that has connected to `peer`, or for the one
  /// that has accepted the connection.
  void use(const std::shared_ptr<const TlsContext>& tls, std::optional<TlsIdentity> peer = {}) {
    const int socket = socket_.socket.get();
    socket_.tls = peer ? TlsSession::call(tls, socket, *peer) : TlsSession::answer(tls, socket);
  }
  [[nodiscard]] std::string denies(int rank) const { return socket_.denies(rank); }

  /// Both sides prove that they know the secret. `us`: this process, as messages call it. Throws
  /// PeerUntrusted as well.
  [[nodiscard]] Seal shake_hands(Handshake handshake, std::string_view us) {
    using Opening = SecureStream::Opening;
    const SecureStream stream = socket_.stream();
    for (auto opening = stream.open(handshake); opening != Opening::over;
         opening = stream.open(handshake)) {
      has_received_ = has_received_ || handshake.has_heard();
      if (opening == Opening::ended)
        fail(errno != 0                                ? std::strerror(errno)
             : stream.tls != nullptr && !has_received_ ? closes_tls_handshake
                                                       : closed_the_connection);
      wait((stream.events(!handshake.out().empty()) & POLLOUT) != 0 ? POLLOUT : POLLIN);
    }
    has_heard_ = true;
    if (stream.tls != nullptr) stream.tls->expect_long_messages();
    if (handshake.is_trusted()) return handshake.seal();
    std::array<char, 4096> rest;
    (void)stream.receive(rest.data(), rest.size());  // unread, it would cut the other side off
    std::string problem = handshake.problem();
    if (problem == speaks_tls_only)
      problem = process_speaks_tls_only(TlsSettings{.with_servers = true}.remedy());
    if (problem.empty()) throw ConnectionLost(is_another_program);
    if (const auto at = problem.find("this worker"); at != std::string::npos)
      problem.replace(at, 11, concat({"this ", us}));
    throw PeerUntrusted(problem);
  }

  /// A deadline for all calls that follow, until the other side has shown who it is: a stranger may
  /// be slow on purpose.
  void limit_stranger(Clock::time_point until = Clock::time_point::max()) noexcept {
    until_ = std::min(until, Clock::now() + limit_of_strangers);
  }
  static constexpr std::chrono::milliseconds limit_of_strangers = std::chrono::seconds(10);
  void trust() noexcept { until_ = Clock::time_point::max(); }
  /// A thread that waits in another call finds the connection lost.
  void shut_down() const noexcept { ::shutdown(socket_.socket.get(), SHUT_RDWR); }
  /// Whether the other side has closed its end. (What it has sent before may still be there.)
  [[nodiscard]] bool has_ended() const noexcept { return is_closed_by_peer(socket_.socket.get()); }

  void send(PsMessage kind, Parts parts, std::uint64_t number = 0) {
    std::uint64_t size = 0;
    for (const auto& part : parts) size += part.size();
    std::array<std::byte, 24> head{};
    put_number<4>(head.data(), ps_mark);
    put_number<4>(head.data() + 4, static_cast<std::uint64_t>(kind));
    put_number<8>(head.data() + 8, number);
    put_number<8>(head.data() + 16, size);
    send_all(head);
    for (const auto& part : parts) send_all(part);
    count_traffic(size, 0);
  }
  void send(PsMessage kind, std::string_view text) { send(kind, {std::as_bytes(std::span(text))}); }
  /// The next message's head; what follows must be received next.
  [[nodiscard]] Head receive_head() {
    std::array<std::byte, 24> head{};
    receive_all(head);
    if (get_number<4>(head.data()) != ps_mark) throw ConnectionLost(is_another_program);
    return {.kind = static_cast<PsMessage>(get_number<4>(head.data() + 4)),
            .number = get_number<8>(head.data() + 8),
            .size = get_number<8>(head.data() + 16)};
  }
  void receive(std::span<std::byte> bytes) {
    receive_all(bytes);
    count_traffic(0, bytes.size());
  }
  /// The rest of a message of at most `longest` bytes.
  [[nodiscard]] std::string receive_text(const Head& head, std::size_t longest) {
    if (head.size > longest)
      throw ConnectionLost(sends_other_size(head.size, concat({"at most ", longest})));
    std::string text(head.size, '\0');
    receive(std::as_writable_bytes(std::span(text)));
    return text;
  }
  /// Throws unless the message has this many bytes.
  static void expect(const Head& head, std::uint64_t size) {
    if (head.size != size) throw ConnectionLost(sends_other_size(head.size, size));
  }

 private:
  void send_all(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n =
          socket_.stream().send({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      if (n > 0)
        bytes = bytes.subspan(static_cast<std::size_t>(n));
      else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        wait(POLLOUT);
      else
        fail_to_send(n == 0 ? closed_the_connection : std::strerror(errno));
    }
  }
  void receive_all(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = socket_.stream().receive(bytes.data(), bytes.size());
      has_received_ = has_received_ || n > 0;
      if (n > 0)
        bytes = bytes.subspan(static_cast<std::size_t>(n));
      else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        wait(POLLIN);
      else
        fail(n == 0 ? closed_the_connection : std::strerror(errno));
    }
  }
  void wait(short events) {
    pollfd ready{socket_.socket.get(), events, 0};
    const auto begin = Clock::now(), end = deadline();
    for (RareLog reports(begin); reports.due() < end;) {
      if (poll_until(ready, reports.due())) return;
      if (!reports.is_due()) break;  // poll has failed
      if (on_silence_) on_silence_(std::chrono::floor<std::chrono::seconds>(Clock::now() - begin));
    }
    if (poll_until(ready, end)) return;
    if (end == until_ && has_received_) throw PeerSilent(did_not_say_who);
    const auto waited = std::chrono::ceil<std::chrono::seconds>(end - begin);
    throw PeerSilent(gave_nothing(events == POLLIN, end == until_ ? waited : timeout_));
  }
  // What TLS refuses before the first message is the other side itself.
  [[noreturn]] void fail(const char* what) const {
    if (socket_.tls == nullptr || socket_.tls->problem().empty()) throw ConnectionLost(what);
    if (!has_heard_) throw PeerUntrusted(socket_.tls->problem());
    throw ConnectionLost(tls_refuses);
  }
  // Why the other side has closed the connection may still be there to read.
  [[noreturn]] void fail_to_send(const char* what) {
    std::array<std::byte, 2> first{};
    if (socket_.tls != nullptr && socket_.tls->problem().empty())
      (void)socket_.tls->read(first.data(), first.size());
    fail(what);
  }
  [[nodiscard]] Clock::time_point deadline() const {
    return std::min(until_, Clock::now() + timeout_);
  }

  SecureSocket socket_;
  const std::chrono::milliseconds timeout_;
  Clock::time_point until_ = Clock::time_point::max();
  std::function<void(std::chrono::seconds)> on_silence_;
  bool has_received_ = false;  // a byte
  bool has_heard_ = false;     // a message of the protocol
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

  [[nodiscard]] std::string text() const {
    return concat({rank, "\n", workers, "\n", server, "\n", servers, "\n", max_staleness, "\n",
                   process, "\n", ps_byte_order, "\n"});
  }
  [[nodiscard]] static PsClaim read(std::string_view message) {
    const auto fields = fields_of(message);
    PsClaim claim;
    if (fields.size() != 7 || !read_number(fields[0], claim.rank) ||
        !read_number(fields[1], claim.workers) || !read_number(fields[2], claim.server) ||
        !read_number(fields[3], claim.servers) || !read_number(fields[4], claim.max_staleness) ||
        !read_number(fields[5], claim.process) || fields[6] != ps_byte_order)
      throw ConnectionLost(claims_nonsense);
    return claim;
  }
};

/// What both sides of a handshake have in common.
inline constexpr std::string_view ps_kind = "parameter servers";
inline constexpr std::string_view ps_claims = "worker's claim";

/// The server's side: returns what the worker claims, and may claim. Throws PeerUntrusted, and
/// tells the worker why where it can.
[[nodiscard]] inline PsClaim admit(PsConnection& connection, const PsTrust& trust) {
  connection.use(trust.tls);
  const Seal seal =
      connection.shake_hands(Handshake::callee(Hello::of_talk(ps_kind), trust.secret), "server");
  const auto head = connection.receive_head();
  if (head.kind != PsMessage::claim) throw ConnectionLost(claims_nonsense);
  const auto claim = seal.opened(ps_claims, connection.receive_text(head, 4096));
  if (!claim) throw PeerUntrusted(cannot_prove);
  PsClaim place = PsClaim::read(*claim);
  if (const std::string denial = connection.denies(place.rank); !denial.empty()) {
    const std::string why = concat({"this worker ", denial});
    connection.send(PsMessage::refusal, {std::as_bytes(std::span(why))},
                    static_cast<std::uint64_t>(ExitCode::usage));
    throw PeerUntrusted(denial);
  }
  return place;
}

/// The worker's side. Throws PeerUntrusted, and ConfigurationError when the server refuses.
inline void claim_place(PsConnection& connection, const PsTrust& trust, const PsClaim& claim) {
  connection.use(trust.tls, TlsIdentity::parameter_server(claim.server));
  const Seal seal = [&] {
    try {
      return connection.shake_hands(
          Handshake::caller(Hello::of_talk(ps_kind), trust.secret, 0, Hello::Channel::talk),
          "worker");
    } catch (const PeerUntrusted& untrusted) {
      if (untrusted.what() != std::string_view(secret_missing)) throw;
      throw ConfigurationError(concat({"it ", secret_missing, "; give all processes the same"}));
    }
  }();
  connection.send(PsMessage::claim, seal.sealed(ps_claims, claim.text()));
}

inline constexpr std::uint64_t ps_longest_signature = std::uint64_t{1} << 24;  ///< with the rest

struct PsBeginning {
  std::uint64_t fit = 0;       ///< the number of the fit: 1 is a worker's first
  std::string_view signature;  ///< the program's
  std::string_view given;      ///< to this fit: its options and data
};

/// Parses the text of a message, which must outlive the result: the number, the signature, a null
/// character, and what was given. Throws ConnectionLost when there is no number.
[[nodiscard]] inline PsBeginning parse_beginning(std::string_view text) {
  std::array<std::byte, 8> number{};
  if (text.size() < number.size()) throw ConnectionLost(breaks_protocol("it begins no fit"));
  std::memcpy(number.data(), text.data(), number.size());
  PsBeginning beginning;
  unpack_numbers(number, beginning.fit);
  text.remove_prefix(number.size());
  beginning.signature = text.substr(0, text.find('\0'));
  beginning.given = text.substr(std::min(beginning.signature.size() + 1, text.size()));
  return beginning;
}

}}}  // namespace lockstep::detail

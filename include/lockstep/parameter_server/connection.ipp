#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/traffic.hpp"
#include "lockstep/parameter_server/connection.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

inline constexpr std::uint32_t ps_mark = 0x5350'534C;  // "LSPS"
inline constexpr std::size_t ps_longest_text = std::size_t{1} << 16;

LOCKSTEP_INLINE PsConnection::PsConnection(MeetingSocket socket, std::chrono::milliseconds timeout)
    : socket_(std::move(socket)), timeout_(timeout) {
  const int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

LOCKSTEP_INLINE void PsConnection::shut_down() const noexcept {
  ::shutdown(socket_.get(), SHUT_RDWR);
}

LOCKSTEP_INLINE bool PsConnection::has_ended() const noexcept {
  pollfd ready{socket_.get(), POLLRDHUP, 0};
  return ::poll(&ready, 1, 0) > 0 && (ready.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

// --- TLS -----------------------------------------------------------------------------------------

LOCKSTEP_INLINE void PsConnection::call(const std::shared_ptr<const TlsContext>& tls,
                                        TlsIdentity peer) {
  if (tls != nullptr) secure(TlsSession::call(tls, socket_.get(), peer));
}

LOCKSTEP_INLINE void PsConnection::answer(const std::shared_ptr<const TlsContext>& tls) {
  if (tls != nullptr) secure(TlsSession::answer(tls, socket_.get()));
}

LOCKSTEP_INLINE void PsConnection::secure(std::unique_ptr<TlsSession> session) {
  tls_ = std::move(session);
  for (auto state = tls_->advance(); state != TlsSession::State::established;
       state = tls_->advance()) {
    if (state == TlsSession::State::failed) fail("closed the connection in the TLS handshake");
    wait(state == TlsSession::State::wants_read ? POLLIN : POLLOUT);
  }
  tls_->expect_long_messages();
}

// Bytes of a TLS handshake or alert, where a message was expected: the other side has TLS. It knows
// from any plain words that this one has none.
LOCKSTEP_INLINE void PsConnection::refuse_tls(std::span<const std::byte> first) {
  constexpr std::byte alert{21}, handshake{22}, version{3};
  if (tls_ != nullptr || has_heard_ || first[1] != version ||
      (first[0] != alert && first[0] != handshake))
    return;
  if (first[0] == handshake) {
    std::array<char, 4096> rest;  // unread, it would cut the other side off
    (void)!::recv(socket_.get(), rest.data(), rest.size(), MSG_DONTWAIT);
    constexpr std::string_view words = "lockstep: no TLS\n";
    (void)!::send(socket_.get(), words.data(), words.size(), MSG_NOSIGNAL);
  }
  throw PeerUntrusted(concat({"speaks TLS only, and this process does without",
                              TlsSettings{.with_servers = true}.remedy()}));
}

// What TLS refuses before the first message is the other side itself.
LOCKSTEP_INLINE void PsConnection::fail(const char* what) const {
  if (tls_ == nullptr || tls_->problem().empty()) throw ConnectionLost(what);
  if (!has_heard_) throw PeerUntrusted(tls_->problem());
  throw ConnectionLost(
      "sends what TLS refuses: it was changed on the way, or another process has sent it");
}

// Why the other side has closed the connection may still be there to read.
LOCKSTEP_INLINE void PsConnection::fail_to_send(const char* what) {
  std::array<std::byte, 2> first{};
  if (tls_ != nullptr) {
    if (tls_->problem().empty()) (void)tls_->read(first.data(), first.size());
  } else if (::recv(socket_.get(), first.data(), first.size(), MSG_DONTWAIT) == 2) {
    refuse_tls(first);
  }
  fail(what);
}

// --- bytes ---------------------------------------------------------------------------------------

LOCKSTEP_INLINE void PsConnection::wait(short events) {
  pollfd ready{socket_.get(), events, 0};
  const auto end = deadline();
  auto silent = ps_report_interval;
  for (auto report = Clock::now() + silent; report < end; report += ps_report_interval) {
    if (poll_until(ready, report)) return;
    // poll() counts whole milliseconds, and may end up to one early: before that, it has failed.
    if (Clock::now() + std::chrono::milliseconds(1) < report) break;
    if (on_silence_) on_silence_(silent);
    silent += ps_report_interval;
  }
  if (!poll_until(ready, end))
    throw ConnectionLost(concat({events == POLLIN ? "has been silent for " : "took no bytes for ",
                                 duration_text(timeout_)}));
}

LOCKSTEP_INLINE void PsConnection::send_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = tls_ != nullptr
                          ? tls_->write(bytes.data(), bytes.size())
                          : ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0)
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      wait(POLLOUT);
    else if (n == 0 || errno != EINTR)
      fail_to_send(n == 0 ? "closed the connection" : std::strerror(errno));
  }
}

LOCKSTEP_INLINE void PsConnection::send(PsMessage kind, Parts parts, std::uint64_t number) {
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

LOCKSTEP_INLINE void PsConnection::receive(std::span<std::byte> bytes) {
  receive_all(bytes);
  count_traffic(0, bytes.size());
}

LOCKSTEP_INLINE void PsConnection::receive_all(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = tls_ != nullptr ? tls_->read(bytes.data(), bytes.size())
                                      : ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (n > 0)
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    else if (n == 0)
      fail("closed the connection");
    else if (errno == EAGAIN || errno == EWOULDBLOCK)
      wait(POLLIN);
    else if (errno != EINTR)
      fail(std::strerror(errno));
  }
}

LOCKSTEP_INLINE PsConnection::Head PsConnection::receive_head() {
  std::array<std::byte, 24> head{};
  try {
    receive_all(head);
  } catch (const ConnectionLost&) {  // an alert is shorter than a head
    refuse_tls(std::span(head).first<2>());
    throw;
  }
  if (get_number<4>(head.data()) != ps_mark) {
    refuse_tls(std::span(head).first<2>());
    throw ConnectionLost("speaks another protocol: another program has the port");
  }
  has_heard_ = true;
  return {.kind = static_cast<PsMessage>(get_number<4>(head.data() + 4)),
          .number = get_number<8>(head.data() + 8),
          .size = get_number<8>(head.data() + 16)};
}

LOCKSTEP_INLINE std::string PsConnection::receive_text(const Head& head, std::size_t longest) {
  if (head.size > longest)
    throw ConnectionLost(
        concat({"sends a text of ", head.size, " bytes, at most ", longest, " are expected"}));
  std::string text(head.size, '\0');
  receive(std::as_writable_bytes(std::span(text)));
  return text;
}

LOCKSTEP_INLINE void PsConnection::expect(const Head& head, std::uint64_t size) {
  if (head.size != size)
    throw ConnectionLost(concat({"sends ", head.size, " bytes where ", size,
                                 " are expected: do all run the same program?"}));
}

// --- the beginning of a conversation -------------------------------------------------------------

inline constexpr std::string_view ps_byte_order =
    std::endian::native == std::endian::little ? "little-endian" : "big-endian";

LOCKSTEP_INLINE std::string PsClaim::text() const {
  return concat({rank, "\n", workers, "\n", server, "\n", servers, "\n", max_staleness, "\n",
                 process, "\n", ps_byte_order, "\n"});
}

LOCKSTEP_INLINE PsClaim PsClaim::read(std::string_view message) {
  const auto fields = fields_of(message);
  PsClaim claim;
  const auto number = [&](std::size_t field, auto& value) {
    const std::string& text = fields[field];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  };
  if (fields.size() != 7 || !number(0, claim.rank) || !number(1, claim.workers) ||
      !number(2, claim.server) || !number(3, claim.servers) || !number(4, claim.max_staleness) ||
      !number(5, claim.process) || fields[6] != ps_byte_order)
    throw ConnectionLost("makes no valid claim");
  return claim;
}

/// What a message of this kind says.
LOCKSTEP_INLINE std::string receive_kind(PsConnection& connection, PsMessage kind) {
  const auto head = connection.receive_head();
  if (head.kind == kind) return connection.receive_text(head, 4096);
  if (head.kind == PsMessage::refusal)
    throw ConfigurationError(printable(connection.receive_text(head, ps_longest_text), 2000));
  throw ConnectionLost("does not begin as a process of this cluster does");
}

LOCKSTEP_INLINE MeetingHello receive_hello(PsConnection& connection) {
  const auto hello = MeetingHello::read(receive_kind(connection, PsMessage::hello));
  if (!hello) throw ConnectionLost("does not begin as a process of this cluster does");
  return *hello;
}

LOCKSTEP_INLINE PsClaim admit(PsConnection& connection, const PsTrust& trust) {
  const ClusterSecret& secret = trust.secret;
  connection.answer(trust.tls);
  const MeetingHello mine = MeetingHello::make(secret);
  const MeetingHello theirs = receive_hello(connection);
  connection.send(PsMessage::hello, mine.text());
  const MeetingSeal seal(secret, theirs, mine);
  std::string sealed;
  try {
    connection.send(PsMessage::proof, seal.sealed("parameter server", ""));
    sealed = receive_kind(connection, PsMessage::claim);
  } catch (const ConnectionLost&) {  // one that does not believe this server goes without a word
    if (theirs.has_secret != secret.is_set())
      throw PeerUntrusted(concat({"has ", theirs.has_secret ? "a" : "no",
                                  " cluster secret (LOCKSTEP_CLUSTER_SECRET), and this server has ",
                                  secret.is_set() ? "one" : "none"}));
    if (!secret.is_set()) throw;
    throw PeerUntrusted(
        "goes at this server's proof: it may have another secret (LOCKSTEP_CLUSTER_SECRET)");
  }
  const auto claim = seal.opened("parameter server's worker", sealed);
  if (!claim || theirs.has_secret != secret.is_set()) {
    connection.send(PsMessage::refusal,
                    secret.is_set()
                        ? "this worker cannot prove that it knows the cluster secret "
                          "(LOCKSTEP_CLUSTER_SECRET); give all processes the same"
                        : "this worker has a cluster secret (LOCKSTEP_CLUSTER_SECRET), the server "
                          "has none; give all processes the same");
    throw PeerUntrusted("cannot prove that it knows the cluster secret (LOCKSTEP_CLUSTER_SECRET)");
  }
  PsClaim place = PsClaim::read(*claim);
  if (const std::string denial = connection.denies(place.rank); !denial.empty()) {
    const std::string why = concat({"this worker ", denial});
    connection.send(PsMessage::refusal, {std::as_bytes(std::span(why))},
                    static_cast<std::uint64_t>(ExitCode::usage));
    throw PeerUntrusted(denial);
  }
  return place;
}

LOCKSTEP_INLINE void claim_place(PsConnection& connection, const PsTrust& trust,
                                 const PsClaim& claim) {
  const ClusterSecret& secret = trust.secret;
  connection.call(trust.tls, TlsIdentity::parameter_server(claim.server));
  const MeetingHello mine = MeetingHello::make(secret);
  connection.send(PsMessage::hello, mine.text());
  const MeetingHello theirs = receive_hello(connection);
  if (theirs.has_secret && !secret.is_set())
    throw ConfigurationError(
        "it has a cluster secret (LOCKSTEP_CLUSTER_SECRET), and this worker has none; give all "
        "processes the same");
  const MeetingSeal seal(secret, mine, theirs);
  if (!seal.opened("parameter server", receive_kind(connection, PsMessage::proof)) ||
      theirs.has_secret != secret.is_set())
    throw PeerUntrusted("cannot prove that it knows the cluster secret (LOCKSTEP_CLUSTER_SECRET)");
  connection.send(PsMessage::claim, seal.sealed("parameter server's worker", claim.text()));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

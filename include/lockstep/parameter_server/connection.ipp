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
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/options.hpp"
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

LOCKSTEP_INLINE void PsConnection::send_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      pollfd ready{socket_.get(), POLLOUT, 0};
      if (!poll_until(ready, deadline()))
        throw ConnectionLost(concat({"took no bytes for ", duration_text(timeout_)}));
    } else if (n < 0 && errno != EINTR) {
      throw ConnectionLost(std::strerror(errno));
    }
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
    const ssize_t n = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (n == 0) {
      throw ConnectionLost("closed the connection");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd ready{socket_.get(), POLLIN, 0};
      if (!poll_until(ready, deadline()))
        throw ConnectionLost(concat({"has been silent for ", duration_text(timeout_)}));
    } else if (errno != EINTR) {
      throw ConnectionLost(std::strerror(errno));
    }
  }
}

LOCKSTEP_INLINE PsConnection::Head PsConnection::receive_head() {
  std::array<std::byte, 24> head{};
  receive_all(head);
  if (get_number<4>(head.data()) != ps_mark)
    throw ConnectionLost("speaks another protocol: another program has the port");
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

LOCKSTEP_INLINE PsConnection::Head expect_kind(PsConnection& connection, PsMessage kind) {
  const auto head = connection.receive_head();
  if (head.kind == kind) return head;
  if (head.kind == PsMessage::refusal)
    throw ConfigurationError(printable(connection.receive_text(head, ps_longest_text), 2000));
  throw ConnectionLost("does not begin as a process of this cluster does");
}

LOCKSTEP_INLINE MeetingHello receive_hello(PsConnection& connection) {
  const auto head = expect_kind(connection, PsMessage::hello);
  const auto hello = MeetingHello::read(connection.receive_text(head, 2048));
  if (!hello) throw ConnectionLost("does not begin as a process of this cluster does");
  return *hello;
}

LOCKSTEP_INLINE PsClaim admit(PsConnection& connection, const ClusterSecret& secret) {
  const MeetingHello mine = MeetingHello::make(secret);
  const MeetingHello theirs = receive_hello(connection);
  connection.send(PsMessage::hello, mine.text());
  const MeetingSeal seal(secret, theirs, mine);
  connection.send(PsMessage::proof, seal.sealed("parameter server", ""));
  const auto head = expect_kind(connection, PsMessage::claim);
  const auto claim = seal.opened("parameter server's worker", connection.receive_text(head, 4096));
  if (!claim || theirs.has_secret != secret.is_set()) {
    connection.send(PsMessage::refusal,
                    secret.is_set()
                        ? "this worker cannot prove that it knows the cluster secret "
                          "(LOCKSTEP_CLUSTER_SECRET); give all processes the same"
                        : "this worker has a cluster secret (LOCKSTEP_CLUSTER_SECRET), the server "
                          "has none; give all processes the same");
    throw ConnectionLost("cannot prove that it knows the cluster secret");
  }
  return PsClaim::read(*claim);
}

LOCKSTEP_INLINE void claim_place(PsConnection& connection, const ClusterSecret& secret,
                                 const PsClaim& claim) {
  const MeetingHello mine = MeetingHello::make(secret);
  connection.send(PsMessage::hello, mine.text());
  const MeetingHello theirs = receive_hello(connection);
  if (theirs.has_secret && !secret.is_set())
    throw ConfigurationError(
        "it has a cluster secret (LOCKSTEP_CLUSTER_SECRET), and this worker has none; give all "
        "processes the same");
  const MeetingSeal seal(secret, mine, theirs);
  const auto head = expect_kind(connection, PsMessage::proof);
  if (!seal.opened("parameter server", connection.receive_text(head, 2048)) ||
      theirs.has_secret != secret.is_set())
    throw ConnectionLost("cannot prove that it knows the cluster secret (LOCKSTEP_CLUSTER_SECRET)");
  connection.send(PsMessage::claim, seal.sealed("parameter server's worker", claim.text()));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

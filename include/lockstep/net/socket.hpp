// Sockets: their names, and how one calls.
#pragma once

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/descriptor.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

// --- names ---------------------------------------------------------------------------------------

/// One end of a connection: an IPv4 or IPv6 address and a port.
using SocketName = sockaddr_storage;

[[nodiscard]] inline const sockaddr* plain(const SocketName& name) noexcept {
  return reinterpret_cast<const sockaddr*>(&name);
}
[[nodiscard]] inline socklen_t size_of(const SocketName& name) noexcept {
  return name.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}
// (The port has one place in both kinds.)
[[nodiscard]] inline int port_of(const SocketName& name) noexcept {
  return ntohs(reinterpret_cast<const sockaddr_in&>(name).sin_port);
}
inline void set_port(SocketName& name, int port) noexcept {
  reinterpret_cast<sockaddr_in&>(name).sin_port = htons(static_cast<std::uint16_t>(port));
}

[[nodiscard]] inline SocketName own_name(int socket) noexcept {
  SocketName name{};
  socklen_t size = sizeof name;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size);
  return name;
}
[[nodiscard]] inline SocketName peer_name(int socket) noexcept {
  SocketName name{};
  socklen_t size = sizeof name;
  ::getpeername(socket, reinterpret_cast<sockaddr*>(&name), &size);
  return name;
}

/// The addresses of a host, as the system resolves it. Empty, with `why`, when it does not.
[[nodiscard, gnu::cold]] inline std::vector<SocketName> resolve(const std::string& host, int port,
                                                                std::string& why, int flags = 0) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), concat({port}).c_str(), &hints, &found);
  if (error != 0) {
    why = concat({"the name does not resolve: ", ::gai_strerror(error)});
    return {};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  std::vector<SocketName> names;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    std::memcpy(&names.emplace_back(), each->ai_addr, each->ai_addrlen);
  }
  return names;
}

/// The name of an IP address, without resolving anything; nothing when `ip` is no IP address.
[[nodiscard, gnu::cold]] inline std::optional<SocketName> ip_name(const std::string& ip, int port) {
  SocketName name{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(name);
  if (::inet_pton(AF_INET, ip.c_str(), &v4.sin_addr) == 1) {
    name.ss_family = AF_INET;
  } else {  // "fe80::1%eth0" too
    std::string ignored;
    const auto found = ip.find(':') == std::string::npos
                           ? std::vector<SocketName>()
                           : resolve(ip, port, ignored, AI_NUMERICHOST);
    if (found.empty()) return std::nullopt;
    name = found.front();
  }
  set_port(name, port);
  return name;
}

/// The IP address in a socket's name; IPv4 in the form of IPv6 is IPv4.
[[nodiscard, gnu::cold]] inline std::string ip_text(const SocketName& name) {
  char text[INET6_ADDRSTRLEN] = "";
  if (name.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(name).sin_addr, text, sizeof text);
    return text;
  }
  const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(name).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&address))
    ::inet_ntop(AF_INET, &address.s6_addr[12], text, sizeof text);
  else
    ::inet_ntop(AF_INET6, &address, text, sizeof text);
  return text;
}

[[nodiscard]] inline bool is_loopback(std::string_view host) noexcept {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// The system may give a free port of this machine to the very socket that calls it.
[[nodiscard]] inline bool has_met_itself(int socket) noexcept {
  const SocketName own = own_name(socket), other = peer_name(socket);
  return std::memcmp(&own, &other, sizeof own) == 0;
}

/// Whether nothing stands between this process and that address. (Nothing is sent.)
[[nodiscard]] inline bool is_of_this_machine(const SocketName& name) {
  const Descriptor socket(new_socket(name.ss_family, SOCK_DGRAM));
  return socket.is_open() && ::connect(socket.get(), plain(name), size_of(name)) == 0 &&
         ip_text(own_name(socket.get())) == ip_text(name);
}

// --- waiting -------------------------------------------------------------------------------------

/// For poll: milliseconds until then, rounded up; -1: for ever.
[[nodiscard]] inline int time_until(std::chrono::steady_clock::time_point until) {
  using std::chrono::steady_clock, std::chrono::milliseconds;
  if (until == steady_clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
  return static_cast<int>(std::clamp<milliseconds::rep>(left.count(), 0, 60'000));
}

/// Polls one descriptor; false when the time is over.
[[nodiscard]] inline bool poll_until(pollfd& ready, std::chrono::steady_clock::time_point until) {
  for (;;) {
    const int left = time_until(until);
    if (left == 0) return false;
    const int n = ::poll(&ready, 1, left);
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

// --- calls ---------------------------------------------------------------------------------------

/// The error of a socket since it was last asked for; 0: none.
[[nodiscard]] inline int socket_error(int socket) noexcept {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

/// Begins to call. `error`: why not, or EINPROGRESS.
[[nodiscard]] inline Descriptor begin_call(const SocketName& name, int& error) noexcept {
  Descriptor socket(new_socket(name.ss_family, SOCK_STREAM));
  const bool is_done = socket.is_open() && ::connect(socket.get(), plain(name), size_of(name)) == 0;
  error = is_done ? 0 : errno;
  return socket;
}

/// A connection to `name`, which does not block. No socket, with `why`, when there is none in time.
[[nodiscard, gnu::cold]] inline Descriptor call_socket(const SocketName& name,
                                                       std::chrono::steady_clock::time_point until,
                                                       std::string& why) {
  const auto none = [&](std::string_view text) {
    why = text;
    return Descriptor();
  };
  int error = 0;
  Descriptor socket = begin_call(name, error);
  if (!socket.is_open()) return none(system_error_text(error));
  if (error == EINPROGRESS) {
    pollfd ready{socket.get(), POLLOUT, 0};
    if (!poll_until(ready, until)) return none("does not answer");
    error = socket_error(socket.get());
  }
  if (error == 0 && has_met_itself(socket.get())) error = ECONNREFUSED;
  if (error != 0) return none(std::strerror(error));
  return socket;
}

/// The same for the first address of a host that answers, each within `patience`.
[[nodiscard, gnu::cold]] inline Descriptor call_host(const std::string& host, int port,
                                                     std::chrono::milliseconds patience,
                                                     std::chrono::steady_clock::time_point until,
                                                     std::string& why) {
  using std::chrono::steady_clock;
  for (const SocketName& name : resolve(host, port, why))
    if (Descriptor socket = call_socket(name, std::min(until, steady_clock::now() + patience), why);
        socket.is_open())
      return socket;
  return {};
}

// --- options -------------------------------------------------------------------------------------

template <class Value>
bool set_option(int socket, int level, int option, const Value& value) noexcept {
  return ::setsockopt(socket, level, option, &value, sizeof value) == 0;
}

/// After this many seconds of silence, the system asks whether the other side's machine is still
/// there, four times, and then ends the connection.
inline void keep_alive(int socket, int idle, int interval) noexcept {
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, keep_alive_idle, idle);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, interval);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

}}}  // namespace lockstep::detail

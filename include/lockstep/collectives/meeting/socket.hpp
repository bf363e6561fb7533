// Plain sockets: those of a meeting, few and short-lived; and what other rooms need of them.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Owns a descriptor.
class MeetingSocket {
 public:
  MeetingSocket() noexcept = default;
  explicit MeetingSocket(int descriptor) noexcept : descriptor_(descriptor) {}
  MeetingSocket(MeetingSocket&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  MeetingSocket& operator=(MeetingSocket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~MeetingSocket() { close(); }

  [[nodiscard]] int get() const noexcept { return descriptor_; }
  [[nodiscard]] bool is_open() const noexcept { return descriptor_ >= 0; }
  void close() noexcept {
    if (is_open()) ::close(std::exchange(descriptor_, -1));
  }

 private:
  int descriptor_ = -1;
};

using SocketName = sockaddr_storage;

[[nodiscard]] inline const sockaddr* plain(const SocketName& name) noexcept {
  return reinterpret_cast<const sockaddr*>(&name);
}
[[nodiscard]] inline socklen_t size_of(const SocketName& name) noexcept {
  return name.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

/// The addresses of a host, as the system resolves it. Empty, with `why`, when it does not.
[[nodiscard, gnu::cold]] inline std::vector<SocketName> resolve(const std::string& host, int port,
                                                                std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
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

[[nodiscard]] inline int port_of(const SocketName& name) noexcept {
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(name).sin6_port
                                          : reinterpret_cast<const sockaddr_in&>(name).sin_port);
}

[[nodiscard]] inline SocketName own_name(int socket) noexcept {
  SocketName name{};
  socklen_t size = sizeof name;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size);
  return name;
}

/// Polls one descriptor; false when the time is over.
[[nodiscard]] inline bool poll_until(pollfd& ready, std::chrono::steady_clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
                          until - std::chrono::steady_clock::now())
                          .count();
    if (left <= 0) return false;
    const int n = ::poll(&ready, 1, static_cast<int>(std::min<long long>(left, 60'000)));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

/// A connection to `name`, which does not block. No socket, with `why`, when there is none in time.
[[nodiscard, gnu::cold]] inline MeetingSocket call_socket(
    const SocketName& name, std::chrono::steady_clock::time_point until, std::string& why) {
  const auto none = [&](std::string_view text) {
    why = text;
    return MeetingSocket();
  };
  MeetingSocket socket(::socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return none(system_error_text(errno));
  if (::connect(socket.get(), plain(name), size_of(name)) != 0) {
    if (errno != EINPROGRESS) return none(std::strerror(errno));
    pollfd ready{socket.get(), POLLOUT, 0};
    if (!poll_until(ready, until)) return none("does not answer");
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return none(std::strerror(error));
  }
  // The system may give a free port of this machine to the very socket that calls it.
  if (ip_text(own_name(socket.get())) == ip_text(name) &&
      port_of(own_name(socket.get())) == port_of(name))
    return none(std::strerror(ECONNREFUSED));
  return socket;
}

/// Listens on `port` (0: a free one) of the loopback interface if `meeting_host` belongs to it,
/// else of `bind_address`, or else of all interfaces. Returns no socket, and errno, when that
/// fails.
[[nodiscard, gnu::cold]] inline MeetingSocket listen_for_meeting(const std::string& meeting_host,
                                                                 const std::string& bind_address,
                                                                 int port) {
  const auto open = [&](int family, const void* address) {
    MeetingSocket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.is_open()) return socket;
    const int on = 1, off = 0;
    if (port != 0) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    SocketName name{};
    name.ss_family = static_cast<sa_family_t>(family);
    if (family == AF_INET6) {
      ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
      auto& v6 = reinterpret_cast<sockaddr_in6&>(name);
      v6.sin6_port = htons(static_cast<std::uint16_t>(port));
      if (address != nullptr) std::memcpy(&v6.sin6_addr, address, sizeof v6.sin6_addr);
    } else {
      auto& v4 = reinterpret_cast<sockaddr_in&>(name);
      v4.sin_port = htons(static_cast<std::uint16_t>(port));
      if (address != nullptr) std::memcpy(&v4.sin_addr, address, sizeof v4.sin_addr);
    }
    if (::bind(socket.get(), plain(name), size_of(name)) != 0 ||
        ::listen(socket.get(), 1024) != 0) {
      const int error = errno;
      socket.close();
      errno = error;
    }
    return socket;
  };
  const bool local = is_loopback(meeting_host);
  const std::string host = local && meeting_host == "localhost" ? "127.0.0.1"
                           : local                              ? meeting_host
                                                                : bind_address;
  in_addr v4{};
  in6_addr v6{};
  if (host.empty()) {
    MeetingSocket both = open(AF_INET6, nullptr);
    if (both.is_open() || errno == EADDRINUSE) return both;
    return open(AF_INET, nullptr);
  }
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return open(AF_INET, &v4);
  if (::inet_pton(AF_INET6, host.c_str(), &v6) == 1) return open(AF_INET6, &v6);
  throw ConfigurationError(
      concat({"CommunicationOptions::bind_address must be an IP address of this machine, such as "
              "10.0.0.1 or fd00::1, got '",
              host, "'"}));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

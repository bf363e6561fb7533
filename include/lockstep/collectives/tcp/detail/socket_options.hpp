// Options of TCP sockets.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/error.hpp>
#include <asio/ip/tcp.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "lockstep/collectives/tcp/detail/links.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Calls do not block, short messages leave at once, and the end of the peer's machine shows within
/// half a minute.
inline void configure(TcpSocket& socket) {
  asio::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
#if defined(TCP_KEEPIDLE) && defined(TCP_KEEPINTVL) && defined(TCP_KEEPCNT)
  const auto set = [&](int option, int value) {
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, 10);
  set(TCP_KEEPINTVL, 5);
  set(TCP_KEEPCNT, 4);
#endif
}

/// Even while nothing is in flight, the end of a peer's machine shows within the timeout.
inline void keep_alive_within(TcpSocket& socket, std::chrono::milliseconds timeout) {
  const int seconds =
      static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(timeout.count() / 1000, 6, 7200));
  for (const auto& [option, value] :
       {std::pair(TCP_KEEPIDLE, seconds / 3), std::pair(TCP_KEEPINTVL, seconds / 6),
        std::pair(TCP_KEEPCNT, 4)})
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
}

/// Throws ConfigurationError when the system does not offer it.
inline void set_congestion_control(TcpSocket& socket, const std::string& name) {
  if (::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, name.data(),
                   static_cast<socklen_t>(name.size())) == 0)
    return;
  throw ConfigurationError(
      concat({"CommunicationOptions::congestion_control: this system does not offer '", name,
              "': ", std::strerror(errno),
              "; /proc/sys/net/ipv4/tcp_allowed_congestion_control lists what it offers"}));
}

/// Why a connection is broken; eof if it has been closed.
inline asio::error_code cause_of_break(int socket) {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error == 0) return asio::error::eof;
  return {error, asio::error::get_system_category()};
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

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

#include "lockstep/collectives/tcp/detail/links.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/socket.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Calls do not block, short messages leave at once, and the end of the peer's machine shows within
/// half a minute.
inline void configure(TcpSocket& socket) {
  asio::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  keep_alive(socket.native_handle(), 10, 5);
}

/// Even while nothing is in flight, the end of a peer's machine shows within the timeout.
inline void keep_alive_within(TcpSocket& socket, std::chrono::milliseconds timeout) {
  const int seconds =
      static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(timeout.count() / 1000, 6, 7200));
  keep_alive(socket.native_handle(), seconds / 3, seconds / 6);
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
  const int error = socket_error(socket);
  if (error == 0) return asio::error::eof;
  return {error, asio::error::get_system_category()};
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

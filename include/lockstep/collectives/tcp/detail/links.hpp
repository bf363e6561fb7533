// The sockets of Tcp.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/collectives/host/host_pipe.hpp"
#include "lockstep/collectives/protocol/control_inbox.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

// With the executor spelled out, Asio instantiates nothing for executors that are known at run time only.
using TcpExecutor = asio::io_context::executor_type;
using TcpSocket = asio::basic_stream_socket<asio::ip::tcp, TcpExecutor>;
using TcpAcceptor = asio::basic_socket_acceptor<asio::ip::tcp, TcpExecutor>;

/// The connections to one peer. (Deques, because sockets that are not open cannot be moved without a warning of g++.)
struct TcpLinks {
  explicit TcpLinks(asio::io_context& io) : control(io) {}

  std::deque<TcpSocket> data;
  TcpSocket control;
  ControlInbox inbox;  ///< what has been read of control, and is for later
  /// If set, data goes through it, and a byte on the first connection for data wakes the peer: a **bell**.
  std::unique_ptr<HostPipe> pipe{};
  bool checksum = true;  ///< of what goes over the connections for data
  Buffer surplus{};      ///< see TcpReceiving
};

/// "rank 1 (127.0.0.1:2222)"
inline std::string peer_name(const std::vector<std::string>& addresses, int rank) {
  return concat({"rank ", rank, " (", addresses[static_cast<std::size_t>(rank)], ")"});
}

/// Calls do not block, short messages leave at once, and the end of the peer's machine shows within half a minute.
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

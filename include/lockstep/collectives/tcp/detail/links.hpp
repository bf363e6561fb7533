// The sockets of Tcp.
#pragma once

#include <asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/collectives/host/host_pipe.hpp"
#include "lockstep/collectives/protocol/control_inbox.hpp"
#include "lockstep/collectives/tcp/detail/socket.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The connections to one peer. (Deques, because sockets that are not open cannot be moved without
/// a warning of g++.)
struct TcpLinks {
  explicit TcpLinks(asio::io_context& io) : control(io) {}

  std::deque<TcpSocket> data;
  TcpSocket control;
  std::uint64_t incarnation = 0;  ///< of the peer's process
  ControlInbox inbox;             ///< what has been read of control, and is for later
  /// If set, data goes through it, and a byte on the first connection for data wakes the peer: a
  /// **bell**.
  std::unique_ptr<HostPipe> pipe{};
  bool checksum = true;  ///< of what goes over the connections for data
  Buffer surplus{};      ///< see TcpReceiving
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

// A TCP connection, plain or with TLS.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>

#include "lockstep/collectives/host/shared_segment.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/socket.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

// With the executor spelled out, Asio instantiates nothing for executors that are known at run time
// only.
using TcpExecutor = asio::io_context::executor_type;
using PlainTcpSocket = asio::basic_stream_socket<asio::ip::tcp, TcpExecutor>;
using TcpAcceptor = asio::basic_socket_acceptor<asio::ip::tcp, TcpExecutor>;

/// A socket whose bytes go through a TlsSession if there is one. It must not block.
class TcpSocket : public PlainTcpSocket {
 public:
  using PlainTcpSocket::PlainTcpSocket;

  /// Null: plain.
  std::unique_ptr<TlsSession> tls{};

  /// What is wrong with the peer by its TLS, else `otherwise`.
  [[nodiscard]] std::string problem(const char* otherwise) const {
    return tls != nullptr && !tls->problem().empty() ? tls->problem() : otherwise;
  }

  template <class Buffers>
  std::size_t read_some(const Buffers& buffers, asio::error_code& error) {
    return tls == nullptr ? PlainTcpSocket::read_some(buffers, error) : read_tls(buffers, error);
  }

  /// With TLS, what has been refused for now must come first in the next call.
  template <class Buffers>
  std::size_t write_some(const Buffers& buffers, asio::error_code& error) {
    return tls == nullptr ? PlainTcpSocket::write_some(buffers, error) : write_tls(buffers, error);
  }

  void close(asio::error_code& error) {
    tls.reset();
    PlainTcpSocket::close(error);
  }

 private:
  // What has moved before an error counts; the error shows in the next call.
  static std::size_t end(std::size_t moved, ssize_t last, asio::error_code& error) {
    if (moved > 0) return moved;
    if (last == 0)
      error = asio::error::eof;
    else if (errno == EAGAIN)
      error = asio::error::would_block;
    else
      error = {errno, asio::error::get_system_category()};
    return 0;
  }

  template <class Buffers>
  std::size_t read_tls(const Buffers& buffers, asio::error_code& error) {
    error = {};
    std::size_t moved = 0;
    for (auto it = asio::buffer_sequence_begin(buffers); it != asio::buffer_sequence_end(buffers);
         ++it)
      for (asio::mutable_buffer rest(*it); rest.size() > 0;) {
        if (moved > 0 && !tls->has_pending()) return moved;
        const ssize_t n = tls->read(rest.data(), rest.size());
        if (n <= 0) return end(moved, n, error);
        rest += static_cast<std::size_t>(n);
        moved += static_cast<std::size_t>(n);
      }
    return moved;
  }

  // Short pieces share a record.
  template <class Buffers>
  std::size_t write_tls(const Buffers& buffers, asio::error_code& error) {
    constexpr std::size_t most = TlsSession::record_bytes, most_pieces = 4;
    error = {};
    std::array<asio::const_buffer, most_pieces> pieces;
    std::size_t count = 0;
    for (auto it = asio::buffer_sequence_begin(buffers); it != asio::buffer_sequence_end(buffers);
         ++it)
      if (const asio::const_buffer piece(*it); piece.size() > 0 && count < most_pieces)
        pieces[count++] = piece;
    std::array<char, most> gathered;
    std::size_t moved = 0;
    for (std::size_t first = 0; first < count;) {
      asio::const_buffer record = pieces[first];
      if (record.size() < most && first + 1 < count) {
        std::size_t size = 0;
        for (std::size_t i = first; i < count; ++i) {
          const std::size_t n = std::min(pieces[i].size(), most - size);
          std::memcpy(gathered.data() + size, pieces[i].data(), n);
          size += n;
        }
        record = {gathered.data(), size};
      }
      const ssize_t n = tls->write(record.data(), record.size());
      if (n <= 0) return end(moved, n, error);
      moved += static_cast<std::size_t>(n);
      for (auto left = static_cast<std::size_t>(n); left > 0;) {
        const std::size_t passed = std::min(left, pieces[first].size());
        pieces[first] += passed;
        left -= passed;
        if (pieces[first].size() == 0) ++first;
      }
    }
    return moved;
  }
};

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
#if defined(TCP_CONGESTION)
  if (::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, name.data(),
                   static_cast<socklen_t>(name.size())) == 0)
    return;
#else
  (void)socket;
  errno = ENOTSUP;
#endif
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

}}}  // namespace lockstep::detail

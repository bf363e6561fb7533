// A TCP connection, plain or with TLS.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

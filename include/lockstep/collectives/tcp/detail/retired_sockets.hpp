// Connections that are of no more use, until the other side closes them.
#pragma once

#include <poll.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <cstddef>
#include <list>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/collectives/tcp/detail/socket.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Closing first, with something unread, might cut off what the other side has not read yet: the
/// word of rank 0 that the start-up is over.
class RetiredSockets {
 public:
  void add(TcpSocket socket) { sockets_.push_back(std::move(socket)); }
  void clear() { sockets_.clear(); }
  [[nodiscard]] std::size_t size() const noexcept { return sockets_.size(); }

  void watch(std::vector<pollfd>& watched) {
    for (TcpSocket& socket : sockets_) watched.push_back({socket.native_handle(), POLLIN, 0});
  }
  /// With what watch() has added.
  void serve(std::span<const pollfd> watched) {
    std::size_t i = 0;
    sockets_.remove_if(
        [&](TcpSocket& socket) { return watched[i++].revents != 0 && ends(socket); });
  }

 private:
  // What comes before the end does not matter.
  static bool ends(TcpSocket& socket) {
    std::array<char, 1024> chunk;
    asio::error_code error;
    while (!error) (void)socket.read_some(asio::buffer(chunk), error);
    return error != asio::error::would_block;
  }

  std::list<TcpSocket> sockets_;  // which need not be moved
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

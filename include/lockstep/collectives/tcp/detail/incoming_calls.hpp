// The connections that come to a worker during start-up: see TcpStartup.
#pragma once

#include <algorithm>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/protocol/handshake.hpp"
#include "lockstep/collectives/tcp/detail/connection.hpp"
#include "lockstep/collectives/tcp/detail/links.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/descriptor.hpp"
#include "lockstep/net/listener.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Listens on the port of `address`: with `descriptor` or the one that LOCKSTEP_LISTEN_FD names, if
/// it fits; else on `bind_address`; without one, on the loopback interface if the address belongs
/// to it, else on all interfaces. Returns what is wrong when another socket has the port, and may
/// give it up. Throws ConfigurationError when anything else is wrong.
[[nodiscard]] inline std::string listen_on_own_port(TcpAcceptor& acceptor,
                                                    const std::string& address, int descriptor,
                                                    const std::string& bind_address, int backlog) {
  const Address own = parse_address(address);
  if (!bind_address.empty()) (void)bind_name(bind_address, own.port);
  Descriptor socket;
  if (listens_on(descriptor, own.port))
    socket = Descriptor::checked(descriptor, "take over a socket");
  else
    socket = inherited_listener(own.port);
  if (!socket.is_open())
    socket = bind_address.empty() ? listen_for(own.host, "", own.port, backlog)
                                  : listen_at(bind_address, own.port, backlog);
  if (socket.is_open()) {
    const bool is_v6 = own_name(socket.get()).ss_family == AF_INET6;
    acceptor.assign(is_v6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), socket.get());
    (void)socket.release();
    return {};
  }
  const int error = errno;
  std::string problem = OwnPort{own.port, address}.problem(error);
  if (error == EADDRINUSE) return problem;
  if (!bind_address.empty())
    problem += concat({"; CommunicationOptions::bind_address is ", bind_address,
                       ", which must be an address of one of this machine's interfaces"});
  throw ConfigurationError(problem);
}

/// This worker's own port, and the connections that have come to it and have no place yet: the
/// **guests**. There is room for a number of them; then the oldest goes, so that no guest can keep
/// others out.
class IncomingCalls {
 public:
  using Guest = TcpConnection::Pointer;

  /// `greet` makes the handshake with a guest.
  IncomingCalls(asio::io_context& io, std::size_t most_guests, const TcpConnection::Owner& owner,
                std::function<Handshake()> greet, std::shared_ptr<KeptPort> kept)
      : io_(io),
        most_guests_(most_guests),
        owner_(owner),
        greet_(std::move(greet)),
        kept_(std::move(kept)),
        acceptor_(io),
        open_timer_(io) {}

  /// See listen_on_own_port(). (A worker that calls amid strangers waits behind those in the
  /// backlog: it is short.) While another socket has the port, this tries again and again: even
  /// an outgoing connection of another program may have it for a moment.
  void open(const std::string& address, int descriptor, const std::string& bind_address,
            int backlog) {
    if (descriptor < 0 && kept_) descriptor = kept_->copy();
    const std::string before = std::exchange(
        cannot_listen_, listen_on_own_port(acceptor_, address, descriptor, bind_address, backlog));
    if (cannot_listen_.empty()) {
      if (kept_ && !kept_->is_set()) kept_->keep(acceptor_.native_handle());
      if (!before.empty()) log_line(concat({"this worker listens on its port now: ", address}));
      return accept();
    }
    if (before.empty())
      log_line(concat({cannot_listen_, "; this worker tries again until the start-up times out"}));
    open_timer_.expires_after(std::chrono::milliseconds(100));
    open_timer_.async_wait([=, this](asio::error_code) {
      if (!closed_) open(address, -1, bind_address, backlog);
    });
  }

  /// Why this worker does not listen yet; empty when it does.
  [[nodiscard]] const std::string& cannot_listen() const noexcept { return cannot_listen_; }

  /// The listening socket, non-blocking; none if this worker does not listen.
  [[nodiscard]] Descriptor release() {
    closed_ = true;
    asio::error_code error;
    const int listener = acceptor_.is_open() ? acceptor_.release(error) : -1;
    return Descriptor(error ? -1 : listener);
  }

  void close() {
    closed_ = true;
    open_timer_.cancel();
    asio::error_code ignored;
    acceptor_.close(ignored);
    for (const Guest& guest : guests_) guest->discard();
  }

  [[nodiscard]] const std::vector<Guest>& guests() const noexcept { return guests_; }

  /// The connection is no longer a guest.
  void forget(const Guest& guest) { std::erase(guests_, guest); }
  // Taken by value: the list may hold the only other reference.
  void drop(Guest guest) {  // NOLINT(performance-unnecessary-value-param)
    guest->discard();
    forget(guest);
  }
  void turn_away(const Guest& stranger, std::string_view what) {
    ++strangers_;
    last_stranger_ = concat({stranger->host(), " ", what});
    drop(stranger);
  }

  /// For a report: "; turned away 3 connections; the last one: ...", or nothing.
  [[nodiscard]] std::string strangers() const {
    if (strangers_ == 0) return {};
    return concat({"; turned away ", strangers_, " connections; the last one: ", last_stranger_});
  }
  /// For a report: "; this worker cannot accept connections: ...", or nothing.
  [[nodiscard]] std::string problem() const {
    if (!cannot_listen_.empty()) return concat({"; this worker ", cannot_listen_});
    if (!problem_) return {};
    return concat({"; this worker cannot accept connections: ", problem_.message()});
  }

 private:
  void accept() {
    auto guest = std::make_shared<TcpConnection>(io_, owner_);
    acceptor_.async_accept(guest->socket, [this, guest](asio::error_code error) {
      if (closed_) return;
      problem_ = error;
      if (!error) {
        admit(guest);
        return accept();
      }
      // Out of descriptors, for example.
      guest->timer.expires_after(std::chrono::milliseconds(100));
      guest->timer.async_wait([this, guest](asio::error_code) {
        if (!closed_) accept();
      });
    });
  }

  void admit(const Guest& guest) {
    if (guests_.size() >= most_guests_) {
      const auto oldest =
          std::find_if(guests_.begin(), guests_.end(), [](const Guest& g) { return !g->contends; });
      if (oldest != guests_.end()) drop(*oldest);
    }
    guests_.push_back(guest);
    guest->receive(greet_());
  }

  asio::io_context& io_;
  const std::size_t most_guests_;
  const TcpConnection::Owner& owner_;
  const std::function<Handshake()> greet_;
  const std::shared_ptr<KeptPort> kept_;
  TcpAcceptor acceptor_;
  TcpConnection::Timer open_timer_;
  std::string cannot_listen_;
  std::vector<Guest> guests_;
  std::size_t strangers_ = 0;
  std::string last_stranger_;
  asio::error_code problem_;  // of the last attempt to accept a connection
  bool closed_ = false;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

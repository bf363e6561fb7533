// Who comes to a worker during start-up: see TcpStartup.
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

#include "lockstep/collectives/handshake.hpp"
#include "lockstep/collectives/tcp_connection.ipp"
#include "lockstep/collectives/tcp_links.ipp"
#include "lockstep/collectives/tcp_listener.ipp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The own port, and those who have come to it and are not taken in yet: the **guests**. There is room for a number of them; then
/// the oldest goes, so that nobody can keep others out.
class TcpDoor {
 public:
  using Guest = TcpConnection::Pointer;

  /// `greet` makes the handshake with a guest.
  TcpDoor(asio::io_context& io, std::size_t most_guests, const TcpConnection::Owner& owner,
          std::function<Handshake()> greet)
      : io_(io), most_guests_(most_guests), owner_(owner), greet_(std::move(greet)), acceptor_(io) {}

  /// See listen_on_own_port().
  void open(const std::string& address, int descriptor, int backlog) {
    listen_on_own_port(acceptor_, address, descriptor, backlog);
    accept();
  }

  void close() {
    closed_ = true;
    asio::error_code ignored;
    acceptor_.close(ignored);
    for (const Guest& guest : guests_) guest->discard();
  }

  [[nodiscard]] const std::vector<Guest>& guests() const noexcept { return guests_; }

  /// It is a guest no longer.
  void forget(const Guest& guest) { std::erase(guests_, guest); }
  // A copy: the list may hold the last other one.
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
      const auto oldest = std::find_if(guests_.begin(), guests_.end(), [](const Guest& g) { return !g->contends; });
      if (oldest != guests_.end()) drop(*oldest);
    }
    guests_.push_back(guest);
    guest->receive(greet_());
  }

  asio::io_context& io_;
  const std::size_t most_guests_;
  const TcpConnection::Owner& owner_;
  const std::function<Handshake()> greet_;
  TcpAcceptor acceptor_;
  std::vector<Guest> guests_;
  std::size_t strangers_ = 0;
  std::string last_stranger_;
  asio::error_code problem_;  // of the last attempt to accept a connection
  bool closed_ = false;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

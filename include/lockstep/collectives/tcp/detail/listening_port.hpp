// A worker's port while the cluster is at work: see Tcp.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/handshake.hpp"
#include "lockstep/collectives/protocol/hello.hpp"
#include "lockstep/collectives/tcp/detail/control_thread.hpp"
#include "lockstep/collectives/tls/tls_context.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/net/descriptor.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Goes on listening, so that no other program gets the port, for which this worker and restarted
/// ones would then wait in vain. A **guest** that asks whether this rank's process lives
/// (Hello::Channel::probe) gets its answer, after a proof if there is a secret; a worker that wants
/// to join hears that the cluster is at work; any other guest is turned away without a word. With
/// TLS, all of this comes after its handshake. One that has closed its own direction gets what a
/// PortProbe looks for, in plain form, and is turned away at once. The number of guests, their time
/// and their rate are limited.
class ListeningPort final : public ControlResident {
 public:
  /// Takes over a listening socket, which does not block.
  ListeningPort(Descriptor listener, Hello mine, ClusterSecret secret,
                std::shared_ptr<const TlsContext> tls)
      : listener_(std::move(listener)),
        mine_(std::move(mine)),
        secret_(std::move(secret)),
        tls_(std::move(tls)) {}
  ListeningPort(const ListeningPort&) = delete;
  ListeningPort& operator=(const ListeningPort&) = delete;

  Clock::time_point watch(std::vector<pollfd>& watched) override {
    const bool is_open = Clock::now() >= closed_until_;
    watched.push_back({is_open ? listener_.get() : -1, POLLIN, 0});
    auto due = is_open ? Clock::time_point::max() : closed_until_;
    for (const Guest& guest : guests_) {
      watched.push_back(
          {guest.socket.socket.get(), guest.socket.events(!guest.handshake.out().empty()), 0});
      due = std::min(due, guest.leaves);
    }
    return due;
  }

  void serve(std::span<const pollfd> watched) override {
    const auto now = Clock::now();
    std::size_t i = 0;
    std::erase_if(guests_, [&](Guest& guest) {
      const bool has_news = watched[++i].revents != 0;
      return now >= guest.leaves || (has_news && !(answer(guest) && talk(guest)));
    });
    if (watched[0].revents != 0) accept(now);
  }

 private:
  struct Guest {
    SecureSocket socket;
    Clock::time_point leaves;
    Handshake handshake;
  };

  static constexpr std::size_t most_guests = 16;
  static constexpr int most_at_once = 8, most_with_tls_at_once = 2;  // a handshake takes 1 ms
  static constexpr auto stay = std::chrono::seconds(2);
  static constexpr auto pause = std::chrono::milliseconds(20);  // 400 guests a second are enough

  void accept(Clock::time_point now) noexcept {
    for (int i = 0; i < (tls_ == nullptr ? most_at_once : most_with_tls_at_once); ++i) {
      Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.is_open() && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (!socket.is_open()) break;  // perhaps no descriptor is left
      try {
        if (guests_.size() == most_guests) {
          (void)answer(guests_.front());
          guests_.erase(guests_.begin());
        }
        auto tls = tls_ == nullptr ? nullptr : TlsSession::answer(tls_, socket.get());
        guests_.push_back({{std::move(socket), std::move(tls)},
                           now + stay,
                           Handshake::callee_at_work(mine_, secret_)});
      } catch (...) {  // no memory, or no random bytes
      }
    }
    closed_until_ = now + pause;
  }

  // Returns false for a guest that has closed its direction.
  [[nodiscard]] bool answer(const Guest& guest) const noexcept {
    char byte = 0;
    if (::recv(guest.socket.socket.get(), &byte, 1, MSG_PEEK) != 0) return true;
    std::array<std::byte, 8> incarnation{};
    put_number<8>(incarnation.data(), mine_.incarnation);
    (void)::send(guest.socket.socket.get(), incarnation.data(), incarnation.size(), MSG_NOSIGNAL);
    return false;
  }

  // Returns false when the guest's time is over.
  static bool talk(Guest& guest) noexcept {
    try {
      const TlsSession::State state = guest.socket.advance();
      if (state != TlsSession::State::established) return state != TlsSession::State::failed;
      Handshake& handshake = guest.handshake;
      std::array<char, 4096> chunk;
      for (;;) {
        while (!handshake.out().empty()) {
          const ssize_t n = guest.socket.send(handshake.out());
          if (n == 0) return false;
          if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
          handshake.sent(static_cast<std::size_t>(n));
        }
        if (handshake.outcome() != Handshake::Outcome::open) return false;
        const ssize_t n =
            guest.socket.receive(chunk.data(), std::min(chunk.size(), handshake.wanted()));
        if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
        if (n == 0) return false;
        handshake.take({chunk.data(), static_cast<std::size_t>(n)});
      }
    } catch (...) {
      return false;
    }
  }

  Descriptor listener_;
  Hello mine_;
  ClusterSecret secret_;
  std::shared_ptr<const TlsContext> tls_;
  std::vector<Guest> guests_;
  Clock::time_point closed_until_{};
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

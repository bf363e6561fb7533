// The connections that a worker makes during start-up: see TcpStartup.
#pragma once

#include <algorithm>
#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/protocol/handshake.hpp"
#include "lockstep/collectives/tcp/detail/connection.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The connections that this worker makes, until their handshakes are over.
class OutgoingCalls {
 public:
  using Call = TcpConnection::Pointer;
  /// Makes the handshake for a link to a rank.
  using Greet = std::function<Handshake(int to, std::size_t link)>;

  OutgoingCalls(asio::io_context& io, const std::vector<std::string>& addresses,
                const TcpConnection::Owner& owner, Greet greet)
      : io_(io),
        owner_(owner),
        greet_(std::move(greet)),
        addresses_(addresses),
        delays_(addresses.size(), shortest) {}

  void start(int to, std::size_t link, std::chrono::milliseconds delay = {}) {
    auto call = std::make_shared<TcpConnection>(io_, owner_);
    call->peer = to;
    call->link = link;
    calls_.push_back(call);
    call->call(parse_address(addresses_[static_cast<std::size_t>(to)]), delay,
               [this, to, link] { return greet_(to, link); });
  }

  /// After a failure: each time a little later, until one has succeeded.
  void start_again(int to, std::size_t link) {
    std::chrono::milliseconds& delay = delays_[static_cast<std::size_t>(to)];
    start(to, link, delay);
    delay = std::min(2 * delay, longest);
  }
  void succeed(int to) noexcept { delays_[static_cast<std::size_t>(to)] = shortest; }

  [[nodiscard]] bool is_calling(int to, std::size_t link) const noexcept {
    return std::any_of(calls_.begin(), calls_.end(),
                       [&](const Call& c) { return c->peer == to && c->link == link; });
  }

  /// Gives up all calls to a rank.
  void stop(int to) {
    std::erase_if(calls_, [to](const Call& call) {
      if (call->peer != to) return false;
      call->discard();
      return true;
    });
  }

  /// The call is over.
  void forget(const Call& call) { std::erase(calls_, call); }

  void close() {
    for (const Call& call : calls_) call->discard();
  }

 private:
  static constexpr std::chrono::milliseconds shortest{50};
  static constexpr std::chrono::milliseconds longest{1000};

  asio::io_context& io_;
  const TcpConnection::Owner& owner_;
  const Greet greet_;
  const std::vector<std::string> addresses_;
  std::vector<std::chrono::milliseconds> delays_;  // by rank
  std::vector<Call> calls_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

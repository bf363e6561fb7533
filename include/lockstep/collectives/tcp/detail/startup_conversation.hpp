// What the workers say to each other on the connections that stand: see TcpStartup.
#pragma once

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/startup_agreement.hpp"
#include "lockstep/collectives/tcp/detail/connection.hpp"
#include "lockstep/collectives/tcp/detail/startup_context.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Carries what StartupAgreement says, until all connections of all ranks stand or one rank gives
/// up.
class StartupConversation {
 public:
  using Pointer = TcpConnection::Pointer;
  using Clock = TcpConnection::Clock;
  using Place = StartupContext::Place;

  /// `lose`: a peer has closed its connection, or talks nonsense.
  StartupConversation(StartupContext& context, std::function<void(int peer)> lose)
      : context_(context), lose_(std::move(lose)), ask_timer_(context.io) {}

  /// Now and then, asks the peers that are connected whether they live, and what they wait for.
  void ask_later() {
    ask_timer_.expires_after(context_.roster.ask_interval());
    ask_timer_.async_wait([this](asio::error_code) {
      if (stopped_) return;
      for (int other = 0; other < context_.world(); ++other)
        if (context_.roster.is_contact(other)) context_.agreement.ask(other);
      ask_later();
    });
  }
  void stop() {
    stopped_ = true;
    ask_timer_.cancel();
  }

  /// Reads the peer's connection for control from now on.
  void watch(const Pointer& control) {
    control->socket.async_wait(TcpSocket::wait_read, [this, control](asio::error_code) {
      if (!control->over) read(control);
    });
  }

  /// Agrees as far as no place is contended for.
  void consider_done() {
    const auto& guests = context_.incoming.guests();
    if (std::none_of(guests.begin(), guests.end(),
                     [](const Pointer& guest) { return guest->contends; }))
      context_.agreement.consider();
  }

  /// This worker gives up, or passes on that another one has.
  void tell_others(const Error& error) {
    if (const auto& aborted = context_.agreement.aborted()) return pass_on(*aborted);
    const std::string_view text = std::string_view(error.what()).substr(0, ControlFrame::longest);
    const ControlFrame frame = context_.agreement.report(error, text);
    for (int other = 0; other < context_.world(); ++other) context_.send(other, frame, text);
    for (const Pointer& guest : context_.incoming.guests())
      if (guest->contends && guest->link == Place::control_link)
        StartupContext::send(*guest, frame, text);
    if (context_.refused_guest) StartupContext::send(*context_.refused_guest, frame, text);
  }

 private:
  void pass_on(const CollectiveFailure& failure) {
    const std::string_view text = std::string_view(failure.reason).substr(0, ControlFrame::longest);
    const ControlFrame frame{.type = ControlFrame::Type::abort,
                             .value = failure.failed_rank,
                             .extra = static_cast<std::int32_t>(failure.code),
                             .length = static_cast<std::uint32_t>(text.size())};
    for (int other = 0; other < context_.world(); ++other)
      if (context_.agreement.is_news_for(other)) context_.send(other, frame, text);
  }

  void read(const Pointer& control) {
    std::array<char, 1024> chunk;
    for (;;) {
      asio::error_code error;
      const std::size_t n = control->socket.read_some(asio::buffer(chunk), error);
      if (error == asio::error::would_block) return watch(control);
      if (error) return lose_(control->peer);
      const auto taken = context_.agreement.take(control->peer, {chunk.data(), n}, Clock::now());
      if (taken == StartupAgreement::Taken::garbage) return lose_(control->peer);
      consider_done();
      if (context_.agreement.is_reached() || context_.agreement.aborted()) return;
    }
  }

  StartupContext& context_;
  const std::function<void(int peer)> lose_;
  TcpConnection::Timer ask_timer_;
  bool stopped_ = false;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

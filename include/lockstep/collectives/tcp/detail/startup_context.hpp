// What the parts of a start-up share: see TcpStartup.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/protocol/data_partners.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/handshake.hpp"
#include "lockstep/collectives/protocol/hello.hpp"
#include "lockstep/collectives/protocol/startup_agreement.hpp"
#include "lockstep/collectives/protocol/startup_claims.hpp"
#include "lockstep/collectives/protocol/startup_place.hpp"
#include "lockstep/collectives/protocol/startup_roster.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/tcp/detail/connection.hpp"
#include "lockstep/collectives/tcp/detail/incoming_calls.hpp"
#include "lockstep/collectives/tcp/detail/outgoing_calls.hpp"
#include "lockstep/collectives/tls/tls_context.hpp"
#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A start-up under way. Vocabulary: a worker **calls** the lower ranks and is called by the higher
/// ones, its **guests**. When a handshake has come to agreement, the connection **stands**, and has
/// its place among its peer's **links**.
struct StartupContext {
  using Clock = TcpConnection::Clock;
  using Place = StartupPlace<TcpConnection::Pointer>;

  StartupContext(asio::io_context& service, const Rendezvous& rendezvous,
                 const CommunicationOptions& communication)
      : io(service),
        options(communication),
        secret(ClusterSecret::given_or_from_environment(rendezvous.secret)),
        owner{.tls = TlsContext::make(
                  TlsSettings::chosen(options, worker_of(rendezvous.workers, rendezvous.rank)),
                  secret, worker_of(rendezvous.workers, rendezvous.rank)),
              .workers = rendezvous.workers,
              .concluded = {},
              .failed = {}},
        roster(WorkerNames(rendezvous.addresses, rendezvous.workers), rendezvous.rank),
        places(places_for(rendezvous, options)),
        claims(rendezvous.addresses.size(), options.startup_timeout),
        incoming(
            io, std::max<std::size_t>(256, most_calls()), owner,
            [this] { return Handshake::callee(mine, secret); }, rendezvous.port),
        outgoing(io, rendezvous.addresses, owner,
                 [this](int to, std::size_t link) { return greet(to, link); }) {
    mine.lane = static_cast<std::uint16_t>(options.data_connections() - 1);
    mine.from = rendezvous.rank;
    mine.addresses = rendezvous.addresses;
    mine.properties = rendezvous.properties;
    mine.incarnation = RandomKey(static_cast<std::uint64_t>(begin.time_since_epoch().count()))
                           .fold_in(static_cast<std::uint64_t>(::getpid()))
                           .fold_in(reinterpret_cast<std::uintptr_t>(this))
                           .value();
    roster.peer(rank()).incarnation = mine.incarnation;
  }
  StartupContext(const StartupContext&) = delete;
  StartupContext& operator=(const StartupContext&) = delete;

  [[nodiscard]] int rank() const noexcept { return roster.rank(); }
  [[nodiscard]] int world() const noexcept { return roster.world(); }
  [[nodiscard]] Place& place(int r) { return places[static_cast<std::size_t>(r)]; }
  /// Connections that all peers together may make to this worker at once.
  [[nodiscard]] std::size_t most_calls() const noexcept {
    std::size_t count = 0;
    for (int other = 0; other < world(); ++other)
      if (roster.is_contact(other)) count += places[static_cast<std::size_t>(other)].links.size();
    return count;
  }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  /// The start-up ends because a peer does not fit.
  void refuse_peer(int peer, std::string_view problem) {
    refusal = concat(
        {roster.names()(peer), " ", problem,
         "; all workers need the same program, the same cluster in TF_CONFIG and, if any, the same "
         "LOCKSTEP_CLUSTER_SECRET"});
  }

  /// 16 bytes always fit into the buffer of a new connection. An error shows when the connection is
  /// read.
  static void send(TcpConnection& control, const ControlFrame& frame, std::string_view text) {
    const FrameBytes bytes = frame.encode();
    const std::array<asio::const_buffer, 2> parts{asio::buffer(bytes), asio::buffer(text)};
    asio::error_code ignored;
    control.socket.write_some(parts, ignored);
  }
  void send(int to, const ControlFrame& frame, std::string_view text) {
    if (place(to).control() != nullptr) send(*place(to).control(), frame, text);
  }

  asio::io_context& io;
  const CommunicationOptions options;
  const ClusterSecret secret;
  const Clock::time_point begin = Clock::now();
  TcpConnection::Owner owner;  ///< of all connections: StartupConnecting sets the functions
  Hello mine;
  StartupRoster roster;
  std::vector<Place> places;  ///< by rank
  StartupClaims claims;
  std::optional<std::string> refusal;    ///< why the start-up ends
  TcpConnection::Pointer refused_guest;  ///< which is told that the start-up ends because of it
  StartupAgreement agreement{roster, [this](int to, const ControlFrame& frame,
                                            std::string_view text) { send(to, frame, text); }};
  IncomingCalls incoming;
  OutgoingCalls outgoing;

 private:
  // One connection for control with each contact, and those for data with the partners. (The place
  // of a rank that is no contact stays empty.)
  static std::vector<Place> places_for(const Rendezvous& rendezvous,
                                       const CommunicationOptions& options) {
    const int size = static_cast<int>(rendezvous.addresses.size());
    std::vector<Place> result;
    result.reserve(rendezvous.addresses.size());
    for (int other = 0; other < size; ++other)
      result.emplace_back(
          1 + (are_data_partners(rendezvous.rank, other, size) ? options.data_connections() : 0));
    return result;
  }

  [[nodiscard]] Handshake greet(int to, std::size_t link) const {
    if (link == Place::control_link)
      return Handshake::caller(mine, secret, to, Hello::Channel::control, mine.lane);
    return Handshake::caller(mine, secret, to, Hello::Channel::data,
                             static_cast<std::uint16_t>(link - Place::first_data_link));
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

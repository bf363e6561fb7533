// Which process has which place in the cluster: see TcpStartup.
#pragma once

#include <algorithm>
#include <asio/error.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/collectives/protocol/handshake.hpp"
#include "lockstep/collectives/protocol/hello.hpp"
#include "lockstep/collectives/protocol/startup_claims.hpp"
#include "lockstep/collectives/protocol/startup_roster.hpp"
#include "lockstep/collectives/tcp/detail/connection.hpp"
#include "lockstep/collectives/tcp/detail/startup_context.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Judges processes that claim a place and do not fit, and two that claim the same.
class StartupContention {
 public:
  using Pointer = TcpConnection::Pointer;
  using Clock = TcpConnection::Clock;
  using Place = StartupContext::Place;

  /// `adopt`: the guest has the place. `changed`: one guest less contends for one.
  StartupContention(StartupContext& context, std::function<void(const Pointer&)> adopt,
                    std::function<void()> changed)
      : context_(context), adopt_(std::move(adopt)), changed_(std::move(changed)) {}

  /// The guest has our answer, and so can say why. A guest that proves that it belongs to this
  /// cluster and does not fit ends the start-up at once. Without a proof, any process may claim the
  /// place that this worker waits for: it is turned away and named, and ends the start-up only if
  /// it keeps coming back (with a secret, not even then).
  void refuse_guest(const Pointer& guest) {
    const Handshake& handshake = *guest->handshake;
    const Hello& theirs = handshake.theirs();
    const bool claims_place = theirs.from > context_.rank() && theirs.from < context_.world() &&
                              theirs.to == context_.rank() &&
                              (theirs.version != context_.mine.version || has_its_address(theirs));
    const bool is_free = claims_place && context_.place(theirs.from).control() == nullptr;
    if (claims_place &&
        (handshake.is_authenticated() ||
         (is_free && !context_.secret.is_set() &&
          context_.claims.ends_for_callee(theirs.from, theirs.incarnation, Clock::now())))) {
      context_.refused_guest = guest;
      return context_.refuse_peer(theirs.from, handshake.problem());
    }
    if (is_free) {
      StartupRoster::Peer& claimed = context_.roster.peer(theirs.from);
      const std::string problem = concat(
          {"was turned away: ", guest->host(), ", which claims to be it, ", handshake.problem()});
      if (claimed.turned_away.empty())
        log_line(concat({context_.roster.names()(theirs.from), " ", problem}));
      claimed.problem = claimed.turned_away = problem;
    } else if (theirs.from == context_.rank() && theirs.addresses == context_.mine.addresses &&
               !twin_named_) {
      twin_named_ = true;
      log_line(concat({guest->host(), " ", handshake.problem()}));
    }
    context_.incoming.turn_away(guest, handshake.problem());
  }

  /// The process at a peer's address does not fit. It may be another program that has the address
  /// for a while; so this worker asks again, until both have waited long enough for another process
  /// to come.
  void doubt_fit(const Pointer& connection, const std::string& problem) {
    const TcpConnection& c = *connection;
    if (context_.claims.ends_for_caller(c.peer, c.incarnation, c.verdict, Clock::now()))
      return context_.refuse_peer(c.peer, problem);
    name_doubt(c.peer, problem, "; this worker asks again, whether another one has the place");
    if (c.peer != context_.rank()) context_.roster.peer(c.peer).problem = problem;
    connection->discard();
    context_.outgoing.forget(connection);
    context_.outgoing.start(c.peer, c.link, StartupClaims::interval);
  }

  /// Says once what is wrong with the process at a peer's address.
  void name_doubt(int peer, const std::string& problem, std::string_view consequence) {
    StartupRoster::Peer& claimed = context_.roster.peer(peer);
    if (claimed.turned_away.empty())
      log_line(concat({context_.roster.names()(peer), " ", problem, consequence}));
    claimed.turned_away = problem;
  }

  /// A process that was killed has closed its connections, or does not answer; a worker that was
  /// started in its place gets it. When the older process answers and is still there a moment
  /// later, there are two.
  void contend(const Pointer& guest) {
    const auto& guests = context_.incoming.guests();
    const auto earlier = std::find_if(guests.begin(), guests.end(), [&](const Pointer& g) {
      return g->contends && g->peer == guest->peer && g->link == guest->link;
    });
    if (earlier != guests.end()) context_.incoming.drop(*earlier);
    guest->contends = true;
    guest->contends_since = Clock::now();
    context_.agreement.ask_whether_it_lives(guest->peer);
    contest_later(guest);
  }

 private:
  [[nodiscard]] bool has_its_address(const Hello& theirs) const {
    const auto from = static_cast<std::size_t>(theirs.from);
    return from < theirs.addresses.size() &&
           theirs.addresses[from] == context_.mine.addresses[from];
  }

  void contest_later(const Pointer& guest) {
    guest->timer.expires_after(Place::contest_interval);
    guest->timer.async_wait([this, guest](asio::error_code) {
      if (!guest->over) contest(guest);
    });
  }

  void contest(const Pointer& guest) {
    if (guest->is_closed_by_peer()) {
      context_.incoming.drop(guest);
      return changed_();
    }
    const Place& place = context_.place(guest->peer);
    switch (place.contest(guest->incarnation, context_.roster.peer(guest->peer).answered,
                          Clock::now() - guest->contends_since)) {
      case Place::Contest::goes_on:
        return contest_later(guest);
      case Place::Contest::prevails:
        guest->prevails = true;
        return adopt_(guest);
      case Place::Contest::twins:
        context_.refusal = concat(
            {context_.roster.names()(guest->peer), " is there twice: two processes, on ",
             place.control()->host(), " and ", guest->host(),
             ", have one place in the cluster; give each worker its own task index in TF_CONFIG"});
    }
  }

  StartupContext& context_;
  const std::function<void(const Pointer&)> adopt_;
  const std::function<void()> changed_;
  bool twin_named_ = false;  // another process with this worker's rank; which has been said
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

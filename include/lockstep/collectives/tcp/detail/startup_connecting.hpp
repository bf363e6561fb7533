// How the connections to all peers come to stand: see TcpStartup.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

#include "lockstep/collectives/protocol/handshake.hpp"
#include "lockstep/collectives/protocol/hello.hpp"
#include "lockstep/collectives/protocol/startup_roster.hpp"
#include "lockstep/collectives/tcp/detail/connection.hpp"
#include "lockstep/collectives/tcp/detail/startup_contention.hpp"
#include "lockstep/collectives/tcp/detail/startup_context.hpp"
#include "lockstep/collectives/tcp/detail/startup_conversation.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Calls the lower ranks, and gives each connection that has ended its handshake the place that it
/// has earned.
class StartupConnecting {
 public:
  using Pointer = TcpConnection::Pointer;
  using Clock = TcpConnection::Clock;
  using Place = StartupContext::Place;

  explicit StartupConnecting(StartupContext& context) : context_(context) {
    context_.owner.concluded = [this](const Pointer& connection) { conclude(connection); };
    context_.owner.failed = [this](const Pointer& connection, const std::string& problem) {
      if (connection->socket.problem("").empty()) return fail(connection, problem);
      doubt_encryption(connection, problem);
    };
  }
  StartupConnecting(const StartupConnecting&) = delete;
  StartupConnecting& operator=(const StartupConnecting&) = delete;

  void begin() {
    for (int peer = 0; peer < context_.rank(); ++peer)
      if (context_.roster.is_contact(peer)) context_.outgoing.start(peer, Place::control_link);
    if (context_.rank() == 0 && context_.world() > 1)  // see meet_myself
      context_.outgoing.start(0, Place::control_link, ask_interval);
    conversation_.ask_later();
    conversation_.consider_done();
  }
  void tell_others(const Error& error) { conversation_.tell_others(error); }
  void stop() { conversation_.stop(); }

 private:
  static constexpr auto ask_interval = std::chrono::seconds(1);

  // --- the end of a handshake --------------------------------------------------------------------

  void conclude(const Pointer& connection) {
    TcpConnection& c = *connection;
    const Handshake& handshake = *c.handshake;
    const Hello& theirs = handshake.theirs();
    c.incarnation = theirs.incarnation;
    const bool has_introduced_itself = handshake.outcome() == Handshake::Outcome::agreed ||
                                       handshake.outcome() == Handshake::Outcome::refused;
    if (c.incoming && c.socket.tls != nullptr && has_introduced_itself) {
      const std::string denial =
          c.socket.tls->denies(worker_of(context_.owner.workers, theirs.from));
      if (!denial.empty()) return doubt_identity(connection, theirs.from, denial);
    }
    const bool unproved = context_.secret.is_set() && !handshake.is_authenticated();
    switch (handshake.outcome()) {
      case Handshake::Outcome::open:
        return;
      case Handshake::Outcome::myself:
        return meet_myself(connection);
      case Handshake::Outcome::stranger:
        if (!handshake.problem().empty()) return fail(connection, handshake.problem());
        return fail(connection, c.incoming
                                    ? "does not speak this protocol"
                                    : "is another program, which does not speak this protocol");
      case Handshake::Outcome::refused:
        if (c.incoming) return contention_.refuse_guest(connection);
        if (unproved) return doubt_proof(connection, handshake.problem());
        if (handshake.is_authenticated()) return context_.refuse_peer(c.peer, handshake.problem());
        return contention_.doubt_fit(connection, handshake.problem());
      case Handshake::Outcome::at_work:
        return fail(connection, handshake.problem());
      case Handshake::Outcome::agreed:
        if (unproved) return fail(connection, "has not proved that it knows the cluster secret");
        break;
    }
    if (c.incoming) {
      c.peer = theirs.from;
      c.link = theirs.channel == Hello::Channel::control ? Place::control_link
                                                         : Place::first_data_link + theirs.lane;
      // A probe is answered by now.
      if (theirs.channel == Hello::Channel::probe) return context_.incoming.drop(connection);
      if (c.peer < context_.rank())
        return fail(connection, concat({"claims to be ", context_.roster.names().shortly(c.peer),
                                        ", which this worker calls itself"}));
      if (!context_.roster.is_contact(c.peer))
        return fail(connection, concat({"claims to be ", context_.roster.names().shortly(c.peer),
                                        ", with which this worker has no connections"}));
      if (c.link >= context_.place(c.peer).links.size())
        return fail(connection,
                    concat({"claims to be ", context_.roster.names().shortly(c.peer),
                            ", with more connections for data than this worker, which has ",
                            context_.place(c.peer).links.size() - Place::first_data_link}));
    } else if (theirs.from != c.peer) {
      return contention_.doubt_fit(connection, concat({"answers as worker ", theirs.from}));
    }
    adopt(connection);
  }

  void fail(const Pointer& connection, const std::string& problem) {
    if (connection->incoming) return context_.incoming.turn_away(connection, problem);
    connection->discard();
    context_.outgoing.forget(connection);
    if (connection->peer == context_.rank()) {
      StartupRoster::Peer& own = context_.roster.peer(context_.rank());
      if (connection->unresolved) {
        own.complaint = problem;
        own.complainant = context_.rank();
      } else if (own.complainant == context_.rank()) {
        own.complainant = -1;
      }
      if (!met_myself_) context_.outgoing.start(context_.rank(), connection->link, ask_interval);
      return;
    }
    context_.roster.peer(connection->peer).problem = problem;
    context_.outgoing.start_again(connection->peer, connection->link);
  }

  // Two processes that both claim rank 0 call no peer and would wait for each other's; so rank 0
  // looks which process answers at its address. And a socket that connects to a free port of its
  // own host may be given that very port, and so meet itself.
  void meet_myself(const Pointer& connection) {
    if (!connection->incoming) return fail(connection, "connection refused");
    met_myself_ = true;
    context_.incoming.drop(connection);
  }

  // A process that has a lower rank's port and proves nothing may be a stranger: the true peer may
  // still come.
  void doubt_proof(const Pointer& connection, const std::string& problem) {
    contention_.name_doubt(connection->peer, problem,
                           "; this worker tries again until the start-up times out");
    fail(connection, problem);
  }

  // TLS says that this is not the peer it should be; the true one may still come.
  void doubt_encryption(const Pointer& connection, const std::string& problem) {
    constexpr const char* patience = "; this worker tries again until the start-up times out";
    if (!connection->incoming)
      contention_.name_doubt(connection->peer, problem, patience);
    else if (std::exchange(doubted_, problem) != problem)
      log_line(concat({"a process at ", connection->host(), " ", problem, "; it is turned away"}),
               LogLevel::warning);
    fail(connection, problem);
  }

  // The guest has the certificate of another worker.
  void doubt_identity(const Pointer& guest, int claimed, const std::string& denial) {
    if (claimed > context_.rank() && claimed < context_.world() &&
        context_.place(claimed).control() == nullptr)
      context_.roster.peer(claimed).turned_away =
          concat({"was turned away: ", guest->host(), " ", denial});
    doubt_encryption(guest, denial);
  }

  // --- places ------------------------------------------------------------------------------------

  // The connection stands. It replaces an older one: a process that connects again has lost or left
  // that. But when another process has the place, it depends on whether that one still lives.
  void adopt(const Pointer& connection) {
    TcpConnection& c = *connection;
    Place& p = context_.place(c.peer);
    if (c.incoming && !c.prevails && p.is_anothers(c.incarnation))
      return contention_.contend(connection);
    if (c.incoming)
      context_.incoming.forget(connection);
    else
      context_.outgoing.forget(connection);
    c.handshake.reset();
    c.timer.cancel();
    c.contends = false;
    p.put(c.link, connection, [&](std::size_t link, const Pointer& former) {
      former->discard();
      if (link != c.link && !c.incoming) context_.outgoing.start(c.peer, link);
    });
    context_.outgoing.succeed(c.peer);
    context_.claims.settle(c.peer);
    StartupRoster::Peer& peer = context_.roster.peer(c.peer);
    peer.incarnation = c.incarnation;
    peer.connected = p.is_complete();
    peer.problem.clear();
    peer.turned_away.clear();
    if (c.link == Place::control_link) {
      context_.agreement.begin(c.peer, Clock::now());
      conversation_.watch(connection);
      if (!c.incoming) call_for_data(c.peer);
    }
    conversation_.consider_done();
  }

  // The connection for control comes first: while a peer is not there, one is enough to try.
  void call_for_data(int to) {
    const auto& links = context_.place(to).links;
    for (std::size_t link = Place::first_data_link; link < links.size(); ++link)
      if (links[link] == nullptr && !context_.outgoing.is_calling(to, link))
        context_.outgoing.start(to, link);
  }

  void lose(int peer) {
    Place& p = context_.place(peer);
    for (Pointer& link : p.links) {
      if (link != nullptr) link->discard();
      link = nullptr;
    }
    context_.outgoing.stop(peer);  // those for data begin again when control stands
    context_.agreement.lose(peer);
    context_.roster.peer(peer).connected = false;
    context_.roster.peer(peer).problem = "closed the connection again";
    if (peer < context_.rank()) context_.outgoing.start_again(peer, Place::control_link);
  }

  StartupContext& context_;
  StartupContention contention_{context_, [this](const Pointer& guest) { adopt(guest); },
                                [this] { conversation_.consider_done(); }};
  StartupConversation conversation_{context_, [this](int peer) { lose(peer); }};
  bool met_myself_ = false;
  std::string doubted_;  // what was said last of a guest's TLS
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

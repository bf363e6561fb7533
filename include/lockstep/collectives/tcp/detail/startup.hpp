// How the workers find each other: see Tcp.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/protocol/control_partners.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/tcp/detail/connection.hpp"
#include "lockstep/collectives/tcp/detail/control_resident.hpp"
#include "lockstep/collectives/tcp/detail/links.hpp"
#include "lockstep/collectives/tcp/detail/listening_port.hpp"
#include "lockstep/collectives/tcp/detail/retired_sockets.hpp"
#include "lockstep/collectives/tcp/detail/startup_connecting.hpp"
#include "lockstep/collectives/tcp/detail/startup_context.hpp"
#include "lockstep/collectives/tcp/detail/startup_reporting.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Sees to it that this process may have as many open files as a worker needs, and raises its limit
/// as far as the system lets it. Throws ConfigurationError when that is not enough: otherwise some
/// peers would be missing until the start-up times out.
inline void provide_descriptors(int rank, int world, std::size_t data_connections) {
  const std::size_t partners = count_data_partners(world);
  const bool meets_rank_0 = rank != 0 && !are_control_partners(0, rank, world);
  const std::size_t peers =
      rank == 0 ? static_cast<std::size_t>(world) - 1 : partners + (meets_rank_0 ? 1 : 0);
  constexpr rlim_t others = 32;  // standard streams, the port, event queues, data sets, logs
  const rlim_t needed = static_cast<rlim_t>(peers + partners * data_connections) + others;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  if (limit.rlim_max >= needed) {
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
    (void)::getrlimit(RLIMIT_NOFILE, &limit);
  }
  throw ConfigurationError(
      concat({"connections to ", peers, " other workers, to each one for control and to ", partners,
              " of them ", data_connections, " for data (CommunicationOptions::connections), take ",
              static_cast<std::size_t>(needed),
              " open files with some for the program itself, and this process may have ",
              static_cast<std::size_t>(limit.rlim_cur),
              " (RLIMIT_NOFILE); use fewer connections, or raise the limit (ulimit -n)"}));
}

/// A start-up from the first call to the agreement that all connections stand. Everything happens
/// on the calling thread, in the handlers of one io_context:
/// - StartupConnecting calls the contacts of lower rank, and gives connections their places;
/// - StartupContention judges processes that do not fit, and two that claim one place;
/// - StartupConversation carries the words of StartupAgreement;
/// - StartupReporting says what is missing;
/// - StartupContext is what they share, and has the vocabulary.
class TcpStartup {
 public:
  TcpStartup(asio::io_context& io, const Rendezvous& rendezvous,
             const CommunicationOptions& options)
      : listen_socket_(rendezvous.listen_socket),
        context_(with_room(io, rendezvous, options), rendezvous, options),
        reporting_(context_, rendezvous.was_connected) {}
  TcpStartup(const TcpStartup&) = delete;
  TcpStartup& operator=(const TcpStartup&) = delete;

  /// Returns the connections by rank; this rank itself has none, nor one that is no partner.
  std::deque<TcpLinks> run() {
    try {
      await_agreement();
    } catch (const Error& error) {
      connecting_.tell_others(error);
      tear_down();
      throw;
    } catch (...) {
      tear_down();
      throw;
    }
    listener_ = context_.incoming.release();
    tear_down();
    std::deque<TcpLinks> result;
    for (int other = 0; other < context_.world(); ++other) {
      StartupContext::Place& place = context_.place(other);
      TcpLinks& links = result.emplace_back(context_.io);
      links.checksum = context_.options.checksum;
      if (place.control() == nullptr) continue;
      if (!are_control_partners(context_.rank(), other, context_.world())) {
        retired_.add(std::move(place.control()->socket));
        continue;
      }
      links.incarnation = place.control()->incarnation;
      links.control = std::move(place.control()->socket);
      links.inbox = std::move(context_.agreement.inbox(other));
      for (std::size_t link = StartupContext::Place::first_data_link; link < place.links.size();
           ++link)
        links.data.push_back(std::move(place.links[link]->socket));
      for (const TcpSocket& socket : links.data)
        if (socket.tls != nullptr) socket.tls->expect_long_messages();
    }
    // Rank 0 has said go on these. A rank that has heard it closes its end first: if rank 0 did,
    // with something unread, the word might get lost.
    if (context_.rank() != 0) retired_.clear();
    return result;
  }

  /// After run(): rank 0's connections with ranks that are no partners, to be closed when these
  /// close them.
  [[nodiscard]] RetiredSockets release_retired() { return std::move(retired_); }

  /// After run(): serves the worker's port from now on; null if this worker could not listen, and
  /// no other rank had to call it.
  [[nodiscard]] std::unique_ptr<ControlResident> release_port() {
    if (!listener_.is_open()) return nullptr;
    return std::make_unique<ListeningPort>(std::move(listener_), context_.mine, context_.secret,
                                           context_.owner.tls);
  }

 private:
  // (The first use of `io` takes some.)
  static asio::io_context& with_room(asio::io_context& io, const Rendezvous& rendezvous,
                                     const CommunicationOptions& options) {
    provide_descriptors(rendezvous.rank, static_cast<int>(rendezvous.addresses.size()),
                        options.data_connections());
    return io;
  }

  void await_agreement() {
    const StartupContext& c = context_;
    context_.incoming.open(c.roster.names().address(c.rank()), listen_socket_,
                           c.options.bind_address,
                           std::max(128, 2 * static_cast<int>(c.most_calls())));
    reporting_.begin();
    connecting_.begin();
    const auto deadline = c.begin + c.options.startup_timeout;
    while (!c.agreement.is_reached() && !c.refusal && !c.agreement.aborted() &&
           StartupContext::Clock::now() < deadline) {
      c.io.run_one_until(std::min(deadline, c.agreement.due()));
      context_.agreement.look_for_lost(StartupContext::Clock::now());
    }
    if (c.refusal) throw ConfigurationError(*c.refusal);
    if (c.agreement.aborted()) throw reporting_.failed(*c.agreement.aborted());
    if (!c.agreement.is_reached() && !c.incoming.cannot_listen().empty())
      reporting_.fail_to_listen();
    if (!c.agreement.is_reached()) throw reporting_.out_of_time();
  }

  void tear_down() {
    asio::error_code ignored;
    context_.incoming.close();
    reporting_.stop();
    connecting_.stop();
    context_.outgoing.close();
    for (const StartupContext::Place& place : context_.places)
      for (const TcpConnection::Pointer& link : place.links)
        if (link != nullptr) {
          link->over = true;
          link->timer.cancel();
          link->socket.cancel(ignored);
        }
    context_.io.restart();
    context_.io.poll();
  }

  const int listen_socket_;
  Descriptor listener_;
  RetiredSockets retired_;
  StartupContext context_;
  StartupReporting reporting_;
  StartupConnecting connecting_{context_};
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

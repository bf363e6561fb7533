#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/meeting/inherited_listener.hpp"
#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/tls/tls_context.hpp"
#include "lockstep/collectives/tls/tls_identity.hpp"
#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/parameter_server/connected_servers.hpp"
#include "lockstep/parameter_server/server.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

// A port that is taken may become free: a connection that another program has made can have it, or
// a server that is about to end.
LOCKSTEP_INLINE MeetingSocket open_server_port(const std::string& address,
                                               const ParameterServerOptions& options) {
  using Clock = std::chrono::steady_clock;
  const Address own = parse_address(address);
  MeetingSocket socket = inherited_listener(own.port);
  const auto deadline = Clock::now() + options.startup_timeout;
  for (bool has_said = false; !socket.is_open(); has_said = true) {
    socket = listen_for_meeting(own.host, options.bind_address, own.port);
    if (socket.is_open() || errno != EADDRINUSE || Clock::now() >= deadline) break;
    if (!has_said)
      log_line(concat({"parameter server: port ", own.port, ", which its address ", address,
                       " names, is taken; it waits for it for ",
                       duration_text(options.startup_timeout)}));
    ::poll(nullptr, 0, 100);
  }
  if (!socket.is_open())
    throw ConfigurationError(concat(
        {"parameter server: cannot listen on port ", own.port, ", which its address ", address,
         " names: ", std::strerror(errno),
         errno == EADDRINUSE ? "; another program, or another server with the same task, has it"
                             : ""}));
  return socket;
}

LOCKSTEP_INLINE PsTrust trust_of(const ParameterServerOptions& options,
                                 const ParameterServers::Place& place) {
  const TlsIdentity own =
      place.server >= 0 ? TlsIdentity::parameter_server(place.server) : TlsIdentity(place.rank);
  PsTrust trust{.secret = ClusterSecret::given_or_from_environment("")};
  trust.tls = TlsContext::make(
      TlsSettings::chosen_with_servers(options.tls, options.tls_files, own), trust.secret, own);
  return trust;
}

LOCKSTEP_INLINE ConnectedServers::ConnectedServers(Place place,
                                                   const ParameterServerOptions& options)
    : ParameterServers(std::move(place)), options_(options), trust_(trust_of(options_, place_)) {
  options_.validate();
  if (is_server())
    listener_ = open_server_port(place_.servers[static_cast<std::size_t>(place_.server)], options_);
  else
    client_.emplace(place_.rank, place_.workers, place_.servers, options_, trust_);
}

LOCKSTEP_INLINE void ConnectedServers::serve(ShardKeeper& keeper) {
  ParameterServer(keeper,
                  {.index = place_.server,
                   .servers = count(),
                   .workers = place_.workers,
                   .address = place_.servers[static_cast<std::size_t>(place_.server)]},
                  options_, trust_, listener_)
      .serve();
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

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

LOCKSTEP_INLINE ConnectedServers::ConnectedServers(Place place,
                                                   const ParameterServerOptions& options)
    : ParameterServers(std::move(place)),
      options_(options),
      secret_(ClusterSecret::given_or_from_environment("")) {
  options_.validate();
  if (TlsSettings::chosen({}, 0).tls != Tls::off)
    throw ConfigurationError(
        "LOCKSTEP_TLS asks for TLS, which connections to parameter servers do not have; train with "
        "MultiWorkerMirroredStrategy, or use a tunnel and unset LOCKSTEP_TLS");
  if (is_server())
    listener_ = open_server_port(place_.servers[static_cast<std::size_t>(place_.server)], options_);
  else
    client_.emplace(place_.rank, place_.workers, place_.servers, options_, secret_);
}

LOCKSTEP_INLINE void ConnectedServers::serve(ShardKeeper& keeper) {
  ParameterServer(keeper,
                  {.index = place_.server,
                   .servers = count(),
                   .workers = place_.workers,
                   .address = place_.servers[static_cast<std::size_t>(place_.server)]},
                  options_, secret_, listener_)
      .serve();
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

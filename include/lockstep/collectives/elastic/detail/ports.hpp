// The ports of a Membership: one for forming worlds, and one for each world.
#pragma once

#include <poll.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/kept_port.hpp"
#include "lockstep/collectives/meeting/inherited_listener.hpp"
#include "lockstep/collectives/meeting/socket.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

[[nodiscard, gnu::cold]] inline TlsSettings elastic_tls(const CommunicationOptions& options,
                                                        int slot) {
  auto settings = TlsSettings::chosen(options, slot);
  if (settings.tls == Tls::certificates)
    throw ConfigurationError(
        "elastic training with Tls::certificates: these name ranks, and ranks change with the "
        "world; take Tls::pre_shared_key");
  return settings;
}

/// Listens at the worker's address of the cluster. The process that had this place may be about to
/// end, and is waited for.
[[nodiscard, gnu::cold]] inline MeetingSocket listen_for_formation(
    const std::string& address, const CommunicationOptions& options) {
  using Clock = std::chrono::steady_clock;
  const Address own = parse_address(address);
  MeetingSocket socket = inherited_listener(own.port);
  const auto deadline = Clock::now() + options.startup_timeout;
  while (!socket.is_open()) {
    socket = listen_for_meeting(own.host, options.bind_address, own.port);
    if (socket.is_open() || errno != EADDRINUSE || Clock::now() >= deadline) break;
    ::poll(nullptr, 0, 100);
  }
  if (!socket.is_open())
    throw ConfigurationError(concat(
        {"cannot listen on port ", own.port, ", which this worker's address ", address,
         " names: ", std::strerror(errno),
         errno == EADDRINUSE ? "; another program, or another worker with the same task, has it"
                             : ""}));
  return socket;
}

/// Opens a port for the members of the next world, kept in `port`, and returns its "host:port".
/// Each world has ports of its own: a process that still calls members of an older one reaches
/// none.
[[nodiscard, gnu::cold]] inline std::string open_world_port(const std::string& address,
                                                            const CommunicationOptions& options,
                                                            KeptPort& port) {
  const auto socket = listen_for_meeting(parse_address(address).host, options.bind_address, 0);
  if (socket.is_open()) port.keep(socket.get());
  if (!socket.is_open() || !port.is_set())
    throw Error(concat({"cannot listen on a port for the other workers: ", std::strerror(errno)}));
  return concat({address.substr(0, address.rfind(':') + 1), port_of(own_name(socket.get()))});
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

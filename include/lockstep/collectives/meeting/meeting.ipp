#pragma once

#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/collectives/meeting/detail/guest.hpp"
#include "lockstep/collectives/meeting/detail/host.hpp"
#include "lockstep/collectives/meeting/meeting.hpp"
#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/tls/tls_context.hpp"
#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/listener.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// The port on which this rank listens to its peers, opened where there is none yet.
LOCKSTEP_INLINE int open_own_port(const std::string& meeting_host,
                                  const CommunicationOptions& options, KeptPort& port) {
  Descriptor listening(port.copy());
  if (!listening.is_open()) {
    listening = listen_for(meeting_host, options.bind_address, 0);
    if (!listening.is_open())
      throw Error(
          concat({"cannot listen on a port for the other workers: ", system_error_text(errno)}));
    port.keep(listening.get());
    if (!port.is_set())
      throw Error(concat({"cannot keep a port for the other workers: ", system_error_text(errno)}));
  }
  return port_of(own_name(listening.get()));
}

}  // namespace detail

LOCKSTEP_INLINE std::vector<std::string> meet(const Meeting& meeting,
                                              const CommunicationOptions& options,
                                              const std::shared_ptr<KeptPort>& port,
                                              const std::string& secret) {
  options.validate();
  const auto known = detail::ClusterSecret::given_or_from_environment(secret);
  const auto tls = detail::TlsContext::make(detail::TlsSettings::chosen(options, meeting.rank),
                                            known, meeting.rank);
  const int own = detail::open_own_port(parse_address(meeting.address).host, options, *port);
  std::vector<std::string> addresses =
      meeting.rank == 0 ? detail::MeetingHost(meeting, options, known, tls, own).wait()
                        : detail::MeetingGuest(meeting, options, known, tls, own).ask();
  detail::note_address(addresses[static_cast<std::size_t>(meeting.rank)]);
  return addresses;
}

}  // namespace lockstep::inline LOCKSTEP_ABI

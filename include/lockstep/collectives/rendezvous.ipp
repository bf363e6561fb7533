#pragma once

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/core/cores.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE bool Rendezvous::has_cores_for_all() const {
  int ranks = ranks_on_host;
  if (ranks <= 0) {
    ranks = 0;
    const std::string own = parse_address(addresses[static_cast<std::size_t>(rank)]).host;
    for (const std::string& address : addresses) ranks += parse_address(address).host == own;
  }
  return ranks <= usable_cores();
}

LOCKSTEP_INLINE void add_properties(Rendezvous& rendezvous, const CommunicationOptions& options,
                                    std::string_view collective) {
  rendezvous.properties.emplace_back("collective", collective);
  rendezvous.properties.emplace_back("CommunicationOptions::implementation",
                                     to_string(options.implementation));
  rendezvous.properties.emplace_back("CommunicationOptions::wire", to_string(options.wire));
  if (options.error_feedback)
    rendezvous.properties.emplace_back("CommunicationOptions::error_feedback", "true");
  rendezvous.properties.emplace_back("CommunicationOptions::overlap", to_string(options.overlap));
  rendezvous.properties.emplace_back("CommunicationOptions::connections",
                                     concat({options.data_connections()}));
  rendezvous.properties.emplace_back("CommunicationOptions::checksum",
                                     options.checksum ? "on" : "off");
}

}}  // namespace lockstep

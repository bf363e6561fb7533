#pragma once

#include <utility>

#include "lockstep/collectives/policies/auto.hpp"
#include "lockstep/collectives/policies/shared_memory.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE std::shared_ptr<AnyCollective> Auto::connect(Rendezvous rendezvous,
                                                             const CommunicationOptions& options) {
  options.validate();
  add_properties(rendezvous, options, "Auto");
  Tcp tcp = Tcp::connect(rendezvous, options);
  detail::SharedHomes homes = detail::share_homes(tcp, rendezvous);
  if (!homes.problem.empty()) {
    const detail::NeighbourPipes pipes = detail::open_neighbour_pipes(tcp);
    if (tcp.rank() == 0)
      log_line(concat({"workers communicate over TCP",
                       pipes.pairs > 0 ? ", and neighbours on a host in shared memory" : "", ": ",
                       homes.problem}));
    return any_collective(Ring<Tcp>(std::move(tcp), options, pipes.together));
  }
  return any_collective(SharedMemory(std::move(tcp), std::move(homes)));
}

}}  // namespace lockstep

// Shared memory between ranks that are neighbours on one host, while others are elsewhere.
#pragma once

#include <string_view>

#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Of the ranks of a ring, those next to each other that share memory. The same on all ranks.
struct NeighbourPipes {
  int pairs = 0;
  int together = 1;  ///< ranks in the longest row of such pairs
};

/// Called by all ranks of a connected transport: ranks next to each other on the ring that can
/// share memory do so from then on, instead of sending their data over TCP. `host`: ranks with
/// different ones do not try; empty: this machine, as the kernel names it.
NeighbourPipes open_neighbour_pipes(Tcp& tcp, std::string_view host = {});

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/policies/neighbour_pipes.ipp"
#endif

// The collective between workers that fits where they are.
#pragma once

#include <memory>

#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/policies/shared_memory.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A CollectivePolicy: SharedMemory when all ranks are on one machine and can share memory, else
/// Ring<Tcp>, in which the bytes between ranks that are neighbours on one host go through memory
/// that they share, if they can. Both give the same bits, unless `options.wire` rounds what
/// Ring<Tcp> moves. `can().share` of the collective tells them apart.
struct Auto {
  [[nodiscard]] static std::shared_ptr<AnyCollective> connect(Rendezvous rendezvous,
                                                              const CommunicationOptions& options);
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/policies/auto.ipp"
#endif

// What a collective needs to know to find its peers, and the policy that makes one.
#pragma once

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A place in a cluster. The list of addresses is the cluster's identity: all workers must have the same.
struct Rendezvous {
  int rank = 0;                        ///< this worker's place in `addresses`
  std::vector<std::string> addresses;  ///< "host:port" of every worker, by rank
  /// Further properties that all workers must share, as (name, value): a difference is refused by its name.
  std::vector<std::pair<std::string, std::string>> properties{};
  int ranks_on_host = 0;   ///< threads of all workers on this machine (0: one for each address with this worker's host)
  int listen_socket = -1;  ///< a socket that listens on this worker's port already, to be taken over; -1: none
};

/// A collective between workers that a strategy can make: the template argument of MultiWorkerMirroredStrategy.
///
///  1. `P` is a Collective.
///  2. `P::connect(rendezvous, options)` returns one that is connected to all its peers. It blocks until they are there,
///     at most options.startup_timeout. Throws ConfigurationError when workers do not fit together and CollectiveError
///     when one is missing.
/// Optional:
///  3. `close()`: the orderly end. Returns when all peers have come to their end too, rank 0 last, or after a bounded
///     wait. Without it, the destructor is all.
///
/// Ring<Tcp> is the one that comes with the library; a user's own goes in its place.
template <class P>
concept CollectivePolicy =
    Collective<P> && requires(const Rendezvous& rendezvous, const CommunicationOptions& options) {
      { P::connect(rendezvous, options) } -> std::same_as<P>;
    };

}  // namespace lockstep::inline LOCKSTEP_ABI

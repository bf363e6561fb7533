// What a collective needs to know to find its peers, and the policy that makes one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/net/descriptor.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A place in a cluster. The list of addresses is the cluster's identity: all workers must have the
/// same.
struct Rendezvous {
  int rank = 0;                        ///< this worker's place in `addresses`
  std::vector<std::string> addresses;  ///< "host:port" of every worker, by rank
  /// Further properties that all workers must share, as (name, value): a difference is refused by
  /// its name.
  std::vector<std::pair<std::string, std::string>> properties{};
  int ranks_on_host = 0;  ///< all workers' threads on this machine (0: one per address)
  /// This worker meets the others again, so a port that is taken is no fault of the configuration.
  bool was_connected = false;
  int listen_socket = -1;  ///< listens on this worker's port already, to be taken over; -1: none
  /// If set, the worker's listening socket is kept here when it is first opened, and used from then
  /// on, so that the worker also keeps its port between two connects.
  std::shared_ptr<KeptPort> port{};
  /// What only workers of this cluster know: a process that cannot prove it is turned away. At
  /// least 16 bytes. Empty: what the environment variable LOCKSTEP_CLUSTER_SECRET says, or the file
  /// that LOCKSTEP_CLUSTER_SECRET_FILE names; without both, no secret. Also the key of
  /// Tls::pre_shared_key.
  std::string secret{};
  /// In an elastic world, each rank's place in the configured cluster, for which its certificate is
  /// (Tls::certificates). Empty: the ranks.
  std::vector<int> workers{};

  /// Whether each rank on this machine has a core to itself. Spinning in a wait saves the wake-up,
  /// but where there are more threads than cores, it takes the core from the rank that is awaited.
  [[nodiscard]] bool has_cores_for_all() const;
};

/// Adds the name of the policy, and the options that must be equal on all ranks, to the properties.
void add_properties(Rendezvous& rendezvous, const CommunicationOptions& options,
                    std::string_view collective);

/// What makes a strategy's collective between workers: the template argument of
/// MultiWorkerMirroredStrategy.
///
/// `P::connect(rendezvous, options)` returns a Collective of any type that is connected to all its
/// peers. It blocks until they are there, at most options.startup_timeout. Throws
/// ConfigurationError when workers do not fit together and CollectiveError when one is missing. All
/// later calls come from one thread at a time, though not always the same (see Overlap); abort()
/// from any.
///
/// Ring<Tcp>, SharedMemory and Auto come with the library; you can write your own.
template <class P>
concept CollectivePolicy =
    requires(const Rendezvous& rendezvous, const CommunicationOptions& options) {
      { any_collective(P::connect(rendezvous, options)) };
    };

namespace detail {

template <CollectivePolicy P>
[[nodiscard]] std::shared_ptr<AnyCollective> connect_policy(const Rendezvous& rendezvous,
                                                            const CommunicationOptions& options) {
  return any_collective(P::connect(rendezvous, options));
}

}  // namespace detail

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/rendezvous.ipp"
#endif

// The collectives that are measured, by the names that the programs' --policy has.
#pragma once

#include <string_view>

#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/cluster/mpi_cluster.hpp"
#include "lockstep/cluster/tf_config.hpp"
#include "lockstep/collectives/mpi.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/ring.hpp"
#include "lockstep/collectives/tcp.hpp"
#include "lockstep/collectives/wire.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace benchmarks {

namespace ls = lockstep;

/// Calls f.template operator()<Policy>(options) for the policy between processes, and the ls::CommunicationOptions, of that
/// name. Throws ls::ConfigurationError when there is none. The policy mpi is for programs that mpirun has started.
template <class F>
void with_policy(std::string_view name, const F& f) {
  const ls::CommunicationOptions options;
  if (name == "tcp") return f.template operator()<ls::Ring<ls::Tcp>>(options);
  if (name == "tcp_bfloat16")
    return f.template operator()<ls::Ring<ls::Tcp>>(ls::CommunicationOptions{.wire = ls::Wire::bfloat16});
#if defined(LOCKSTEP_HAS_MPI)
  if (name == "mpi") return f.template operator()<ls::Mpi>(options);
#endif
  throw ls::ConfigurationError(ls::concat({"unknown policy: '", name, "'"}));
}

/// The workers that with_policy's policy connects; alone in the process that has to start them.
inline ls::Cluster cluster_of([[maybe_unused]] std::string_view policy) {
#if defined(LOCKSTEP_HAS_MPI)
  if (policy == "mpi") return ls::mpi_cluster();
#endif
  return ls::cluster_from_environment();
}

}  // namespace benchmarks

// The cluster that MPI has started. This header is empty in programs that do not link the CMake
// target lockstep::mpi.
#pragma once

#include "lockstep/core/config.hpp"

#if defined(LOCKSTEP_HAS_MPI)

#include <cstddef>

#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/mpi/mpi.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The job that an MPI launcher has started (`mpirun -n 4 trainer`, or that of a supercomputer):
/// each process is a worker, and TF_CONFIG does not count. A process without a launcher is alone.
/// @code
/// MultiWorkerMirroredStrategy<Mpi> strategy(mpi_cluster());
/// @endcode
/// All processes must call this, each on one thread. The hosts are MPI's names of the machines; no
/// process listens on the ports.
[[nodiscard]] inline Cluster mpi_cluster() {
  const MpiPlace place = MpiPlace::get();
  Cluster cluster;
  if (place.size == 1) return cluster;
  cluster.task.index = place.rank;
  for (std::size_t rank = 0; rank < place.hosts.size(); ++rank)
    cluster.spec.worker.push_back(concat({place.hosts[rank], ":", rank % 65535 + 1}));
  return cluster;
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#endif

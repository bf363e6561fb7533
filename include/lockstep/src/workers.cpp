// Workers: what starts them, where their replicas run, and the operations of all ranks.
#define LOCKSTEP_SOURCE 1

#include "lockstep/cluster/cluster_from_environment.ipp"
#include "lockstep/cluster/cluster_spec.ipp"
#include "lockstep/cluster/launcher.ipp"
#include "lockstep/cluster/launchers/known_launchers.ipp"
#include "lockstep/cluster/run.ipp"
#include "lockstep/collectives/address.ipp"
#include "lockstep/collectives/host/launcher_notes.ipp"
#include "lockstep/collectives/host/shared_segment.ipp"
#include "lockstep/collectives/meeting/meeting.ipp"
#include "lockstep/collectives/policies/auto.hpp"
#include "lockstep/collectives/policies/auto.ipp"
#include "lockstep/collectives/policies/hierarchical.ipp"
#include "lockstep/collectives/policies/shared_memory.ipp"
#include "lockstep/collectives/protocol/authentication.ipp"
#include "lockstep/collectives/rendezvous.ipp"
#include "lockstep/collectives/ring/ring.ipp"
#include "lockstep/collectives/ring/ring_flow.ipp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/collectives/tcp/tcp.ipp"
#include "lockstep/collectives/threads/in_process.ipp"
#include "lockstep/collectives/tls/tls_session.ipp"
#include "lockstep/collectives/tls/tls_settings.ipp"
#include "lockstep/extra/elastic/membership.ipp"
#include "lockstep/strategies/mirrored.ipp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "lockstep/strategies/multi_worker_mirrored.ipp"
#include "lockstep/strategies/one_device.hpp"
#include "lockstep/strategies/replica_threads.ipp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
template class MultiWorkerMirroredStrategy<Auto>;
template class MultiWorkerMirroredStrategy<Ring<Tcp>>;
template class MultiWorkerMirroredStrategy<SharedMemory>;
}}  // namespace lockstep

// Every collective and transport of this room satisfies its concept. Here and not in the headers,
// where each program that includes them would pay for the answer again.
#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/collectives/policies/auto.hpp"
#include "lockstep/collectives/policies/hierarchical.hpp"
#include "lockstep/collectives/policies/shared_memory.hpp"
#include "lockstep/collectives/policies/single.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/collectives/threads/in_process.hpp"

namespace lockstep {

static_assert(Collective<AnyCollective>);
static_assert(Transport<Tcp>);
static_assert(CollectivePolicy<Auto>);
static_assert(Collective<Hierarchical>);
static_assert(CollectivePolicy<SharedMemory>);
static_assert(Collective<Single>);
static_assert(Collective<InProcess>);

}  // namespace lockstep

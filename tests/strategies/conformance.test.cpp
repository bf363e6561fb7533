// Every strategy of this room satisfies its concept. Here and not in the headers, where each
// program that includes them would pay for the answer again.
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"

namespace lockstep {

static_assert(Replica<AnyReplica>);
static_assert(Strategy<MirroredStrategy>);
static_assert(Strategy<OneDeviceStrategy>);

}  // namespace lockstep

// Every source of this room satisfies its concept. Here and not in the headers, where each program
// that includes them would pay for the answer again.
#include "lockstep/datasets/csv.hpp"
#include "lockstep/datasets/npy.hpp"
#include "lockstep/datasets/token_shard.hpp"

namespace lockstep {

static_assert(Source<CsvRecords>);
static_assert(Source<NpySource>);
static_assert(Source<TokenShard>);

}  // namespace lockstep

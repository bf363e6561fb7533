// Everything of these rooms satisfies its concept. Here and not in the headers, where each program
// that includes them would pay for the answer again.
#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/extra/parameter_server.hpp"
#include "lockstep/extra/prometheus.hpp"
#include "lockstep/extra/records.hpp"
#include "lockstep/extra/tensorboard.hpp"
#include "lockstep/strategies/concepts.hpp"

namespace lockstep {

static_assert(Callback<PrometheusFile>);
static_assert(Callback<PrometheusPort>);
static_assert(Callback<TensorBoard>);
static_assert(Source<TFRecordSource>);
static_assert(Strategy<ParameterServerStrategy>);

}  // namespace lockstep

// A worker whose NCCL is the stand-in:
//
//   nccl_worker train|killed|stuck
//
// It trains, and fails unless it has learned; or worker 1 is killed in the third step, or stuck in
// a call.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <string_view>

#include "extra/nccl/stand_in/stand_in.hpp"
#include "lockstep/callbacks/lambda_callback.hpp"
#include "lockstep/cluster/run.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/extra/nccl.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"

using namespace lockstep;
using namespace std::chrono_literals;
using Net = Sequential<Input<2>, Dense<300, Tanh>, Dense<300, Tanh>, Dense<1>>;

int main(int argc, char** argv) {
  return run(argc, argv, [](int, char** arguments) {
    const std::string_view what = arguments[1];
    const auto limit = what == "stuck" ? 2s : 60s;
    MultiWorkerMirroredStrategy<Nccl> strategy(
        {.replicas = 2,
         .communication_options = {
             .timeout = limit, .progress_timeout = limit, .startup_timeout = 60s}});
    if (what == "stuck") stand_in::fault = {"ncclAllReduce", 1, stand_in::Kind::never_returns};
    Tensor<float> x({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2});
    Tensor<float> y({0, 1, 1, 0}, {4, 1});
    auto model = compile<Net>(strategy, CompileOptions{.seed = 3}, MeanSquaredError{},
                              SGD{.learning_rate = 0.2});
    const auto history = model.fit(from_tensor_slices(x, y).repeat().batch(16),
                                   {.epochs = 2, .verbose = 0, .steps_per_epoch = 100},
                                   LambdaCallback{.on_epoch_begin = [&](int epoch) {
                                     if (what == "killed" && epoch == 1 && !strategy.is_chief())
                                       ::raise(SIGKILL);
                                   }});
    const double first = history["loss"].front(), last = history["loss"].back();
    std::printf("loss %g to %g, %08x\n", first, last, model.parameters_crc32c());
    if (!(last < 0.9 * first)) throw Error("the loss has not gone down");
    if (stand_in::numbers_moved() == 0) throw Error("no sum went over NCCL");
  });
}

// A model trains on the ranks of an MPI job; run by mpiexec. Exit code 0 when it has learned, the
// same on all ranks.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>

#include "lockstep/cluster/run.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/extra/mpi/mpi.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"

using namespace lockstep;
using Net = Sequential<Input<2>, Dense<8, Tanh>, Dense<1>>;

int main(int argc, char** argv) {
  return run(argc, argv, [] {
    MultiWorkerMirroredStrategy<Mpi> strategy(mpi_cluster(), {.replicas = 2});
    Tensor<float> x({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2});
    Tensor<float> y({0, 1, 1, 0}, {4, 1});
    auto model = compile<Net>(strategy, CompileOptions{.seed = 3}, MeanSquaredError{},
                              SGD{.learning_rate = 0.3});
    const auto history = model.fit(from_tensor_slices(x, y).repeat().batch(16),
                                   {.epochs = 5, .verbose = 0, .steps_per_epoch = 100});
    const double first = history["loss"].front(), last = history["loss"].back();
    if (strategy.is_chief())
      std::printf("%d workers: loss %g to %g\n", strategy.num_workers(), first, last);
    if (!(last < first / 4)) throw Error("the loss has not gone down");

    const auto mine = static_cast<std::int64_t>(model.parameters_crc32c());
    std::array<std::int64_t, 2> extremes{mine, -mine};
    MPI_Allreduce(MPI_IN_PLACE, extremes.data(), 2, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    if (extremes[0] != -extremes[1]) throw Error("the parameters differ");
  });
}

// Whole training steps of the models in models.hpp, on one thread and on two: fit itself, on one
// batch over and over, with everything that a user's step has (gathering the batch, loss, accuracy,
// reduction, update).
//
// benchmark_steps [options of Google Benchmark] names: step/MODEL/THREADS; peak
//
// Two threads are the two replicas of a MirroredStrategy, each with half of the batch. Rates are by
// processor time where there is one thread, which other programs disturb little. The counter FLOP
// counts the products of a step.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <limits>
#include <string>

#include "fixed_batch.hpp"
#include "fma_peak.hpp"
#include "layers_of.hpp"
#include "lockstep/losses/sparse_categorical_crossentropy.hpp"
#include "lockstep/metrics/accuracy.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "models.hpp"

namespace {

namespace ls = lockstep;

/// Lets Google Benchmark decide after how many steps fit ends.
struct TimedSteps {
  static constexpr int steps_per_epoch = 20, warm_up_epochs = 1;
  benchmark::State& state;

  void on_epoch_end(ls::Training& training, int epoch, ls::Logs&) {
    if (epoch + 1 >= warm_up_epochs && !state.KeepRunningBatch(steps_per_epoch)) training.stop_training();
  }
};
static_assert(ls::Callback<TimedSteps>);

template <class Subject>
void step(benchmark::State& state, int threads) {
  using Net = typename Subject::Net;
  ls::MirroredStrategy strategy({.replicas = threads});
  auto model =
      ls::compile<Net>(strategy, ls::CompileOptions{.seed = 1}, ls::SparseCategoricalCrossentropy{.from_logits = true},
                       ls::SGD{.learning_rate = 1e-4}, ls::Accuracy{});
  TimedSteps timed{state};
  model.fit(benchmarks::fixed_batch<Subject>(),
            {.epochs = std::numeric_limits<int>::max(), .verbose = 0, .steps_per_epoch = TimedSteps::steps_per_epoch},
            timed);
  benchmarks::count_flop(state, benchmarks::step_flop<Net>(Subject::batch));
}

}  // namespace

int main(int argc, char** argv) {
  benchmarks::register_peak();
  benchmarks::for_each_model([]<class Subject>() {
    for (const int threads : {1, 2}) {
      auto* registered =
          benchmark::RegisterBenchmark(("step/" + std::string(Subject::name) + "/" + std::to_string(threads)).c_str(),
                                       [threads](benchmark::State& state) { step<Subject>(state, threads); })
              ->Unit(benchmark::kMillisecond);
      if (threads > 1) registered->UseRealTime();
    }
  });
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::AddCustomContext("instruction set", std::string(ls::to_string(ls::kernels::instruction_set())));
  benchmark::RunSpecifiedBenchmarks();
}

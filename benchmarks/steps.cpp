// Whole training steps of the models in models.hpp, on one thread and on two: fit itself, on one
// batch over and over, with everything that a user's step has (gathering the batch, loss, accuracy,
// reduction, update).
//
// benchmark_steps [options of Google Benchmark] names: step/MODEL/THREADS; loop/MODEL/THREADS,
// where a loop of the program's own takes the place of fit; bfloat16/MODEL/THREADS, with the policy
// MixedBFloat16; peak
//
// Two threads are the two replicas of a MirroredStrategy, each with half of the batch. The counter
// FLOP counts the products of a step.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>

#include "fixed_batch.hpp"
#include "fma_peak.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/budget.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/mixed_precision.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "models.hpp"
#include "timed_steps.hpp"

namespace {

namespace ls = lockstep;

template <class Subject, class Policy, class Time>
void time_with(benchmark::State& state, int threads, const Time& time) {
  using Net = typename Subject::Net;
  ls::MirroredStrategy strategy({.replicas = threads});
  auto model = ls::compile<Net, Policy>(strategy, ls::CompileOptions{.seed = 1},
                                        ls::SparseCategoricalCrossentropy{.from_logits = true},
                                        ls::SGD{.learning_rate = 1e-4}, ls::Accuracy{});
  time(strategy, model, benchmarks::fixed_batch<Subject>());
  benchmarks::count_flop(state,
                         static_cast<double>(ls::budget<Net>(Subject::batch, ls::SGD{}).flop));
}

template <class Subject, class Policy>
void step(benchmark::State& state, int threads) {
  time_with<Subject, Policy>(state, threads, [&](auto&, auto& model, const auto& data) {
    benchmarks::time_steps(state, model, data);
  });
}

template <class Subject>
void loop(benchmark::State& state, int threads) {
  time_with<Subject, float>(state, threads, [&](auto& strategy, auto& model, const auto& data) {
    benchmarks::time_own_loop(state, strategy, model, data);
  });
}

}  // namespace

int main(int argc, char** argv) {
  benchmarks::register_peak();
  benchmarks::for_each_model([]<class Subject>() {
    benchmarks::register_steps(Subject::name, step<Subject, float>);
    benchmarks::register_steps(Subject::name, step<Subject, ls::MixedBFloat16>, "bfloat16");
    benchmarks::register_steps(Subject::name, loop<Subject>, "loop");
  });
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::AddCustomContext("instruction set",
                              std::string(ls::to_string(ls::kernels::instruction_set())));
  benchmark::RunSpecifiedBenchmarks();
}

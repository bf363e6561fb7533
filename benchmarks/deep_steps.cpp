// Whole training steps of the models in deep_models.hpp, on one thread and on two: fit itself, on
// one batch over and over.
//
// benchmark_deep_steps [options of Google Benchmark] names: step/MODEL/THREADS;
// bfloat16/MODEL/THREADS, with the policy MixedBFloat16; peak

#include <benchmark/benchmark.h>

#include <string>
#include <string_view>

#include "deep_models.hpp"
#include "fma_peak.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/budget.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/mixed_precision.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "timed_steps.hpp"

namespace {

namespace ls = lockstep;

template <class Subject, class Policy = float>
void add(std::string_view kind = "step") {
  const auto step = [](benchmark::State& state, int threads) {
    ls::MirroredStrategy strategy({.replicas = threads});
    auto model = ls::compile<typename Subject::Net, Policy>(
        strategy, ls::CompileOptions{.seed = 1},
        ls::SparseCategoricalCrossentropy{.from_logits = true}, Subject::optimizer());
    benchmarks::time_steps(state, model, benchmarks::random_batch<Subject>(),
                           Subject::steps_per_epoch);
    constexpr double flop = Subject::flop(Subject::batch);
    static_assert(flop == ls::budget<typename Subject::Net>(Subject::batch, ls::SGD{}).flop);
    benchmarks::count_flop(state, flop);
  };
  benchmarks::register_steps(Subject::name, step, kind);
}

}  // namespace

int main(int argc, char** argv) {
  benchmarks::register_peak();
  add<benchmarks::CharGpt>();
  add<benchmarks::ResNet20>();
  add<benchmarks::BiLstm>();
  add<benchmarks::Gpt2>();
  add<benchmarks::CharGpt, ls::MixedBFloat16>("bfloat16");
  add<benchmarks::Gpt2, ls::MixedBFloat16>("bfloat16");
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::AddCustomContext("instruction set",
                              std::string(ls::to_string(ls::kernels::instruction_set())));
  benchmark::RunSpecifiedBenchmarks();
}

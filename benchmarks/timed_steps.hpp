// fit, as a benchmark of its steps.
#pragma once

#include <benchmark/benchmark.h>

#include <limits>
#include <string>
#include <string_view>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/model/own_loop.hpp"

namespace benchmarks {

/// Lets Google Benchmark decide after how many steps fit ends.
struct TimedSteps {
  benchmark::State& state;
  int steps_per_epoch = 20;
  static constexpr int warm_up_epochs = 1;

  void on_epoch_end(lockstep::Training& training, int epoch, lockstep::Logs&) {
    if (epoch + 1 >= warm_up_epochs && !state.KeepRunningBatch(steps_per_epoch))
      training.stop_training();
  }
};
static_assert(lockstep::Callback<TimedSteps>);

/// Trains `model` on `data` for as long as Google Benchmark wants.
template <class Model, class Dataset>
void time_steps(benchmark::State& state, Model& model, const Dataset& data,
                int steps_per_epoch = 20) {
  TimedSteps timed{state, steps_per_epoch};
  model.fit(
      data,
      {.epochs = std::numeric_limits<int>::max(), .verbose = 0, .steps_per_epoch = steps_per_epoch},
      timed);
}

/// The same in a loop outside of fit, all of it in one run of the strategy.
template <class Strategy, class Model, class Dataset>
void time_own_loop(benchmark::State& state, Strategy& strategy, Model& model, const Dataset& data,
                   int steps = 20) {
  auto batches = strategy.distribute(data);
  bool more = true;
  strategy.run([&](auto& replica) {
    auto& here = model.on(replica);
    int step = 0;
    for (const auto& batch : batches.on(replica, {.seed = model.seed(), .number = 0})) {
      here.minimize(batch);
      if (++step % steps != 0) continue;
      replica.team_lead([&] { more = state.KeepRunningBatch(steps); });
      if (!more) break;
    }
  });
}

/// Registers KIND/NAME/THREADS for one thread and for two; `step` is void(benchmark::State&, int
/// threads). Rates are by processor time where there is one thread, which other programs disturb
/// little.
template <class Step>
void register_steps(std::string_view name, Step step, std::string_view kind = "step") {
  for (const int threads : {1, 2}) {
    auto* registered =
        benchmark::RegisterBenchmark(
            (std::string(kind) + "/" + std::string(name) + "/" + std::to_string(threads)).c_str(),
            [threads, step](benchmark::State& state) { step(state, threads); })
            ->Unit(benchmark::kMillisecond);
    if (threads > 1) registered->UseRealTime();
  }
}

}  // namespace benchmarks

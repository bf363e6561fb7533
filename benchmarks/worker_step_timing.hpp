// Times training steps of a model on worker processes of one thread each.
#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "all_reduce_timing.hpp"
#include "fixed_batch.hpp"
#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"

namespace benchmarks {

namespace ls = lockstep;

/// The mean of the steps of each epoch, which are many enough for the end of the epoch not to
/// matter.
struct EpochTimer {
  int steps_per_epoch = 20;
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin{};
  std::vector<double> times{};

  void on_epoch_begin(ls::Training&, int) { begin = Clock::now(); }
  void on_epoch_end(ls::Training&, int, ls::Logs&) {
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() /
                    steps_per_epoch);
  }
};
static_assert(ls::Callback<EpochTimer>);

/// Steps of `model` on `data` on this worker; the chief prints them under `name`, with the samples
/// of a worker.
template <class Model, class Dataset>
void time_steps(const TimingOptions& options, std::string_view name, bool prints, Model& model,
                const Dataset& data, std::size_t samples, int steps_per_epoch) {
  constexpr int epochs = 5;  // of a repetition
  const auto fit = [&](int count) {
    EpochTimer timer{.steps_per_epoch = steps_per_epoch};
    model.fit(data, {.epochs = count, .verbose = 0, .steps_per_epoch = steps_per_epoch}, timer);
    return timer.times;
  };
  (void)fit(1);
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    auto times = fit(epochs);
    if (prints) print_times(name, options.ranks, samples, std::move(times));
  }
}

/// Steps of Subject (models.hpp) on this worker of the cluster, a batch on each.
template <class Subject, ls::CollectivePolicy Policy, class Optimizer = ls::SGD>
void time_steps(const TimingOptions& options, const ls::Cluster& cluster,
                const ls::MultiWorkerMirroredOptions& workers) {
  ls::MultiWorkerMirroredStrategy<Policy> strategy(cluster, workers);
  auto model =
      ls::compile<typename Subject::Net>(strategy, ls::CompileOptions{.seed = 1},
                                         ls::SparseCategoricalCrossentropy{.from_logits = true},
                                         Optimizer{.learning_rate = 1e-4}, ls::Accuracy{});
  time_steps(options, options.policy, strategy.is_chief(), model,
             fixed_batch<Subject>(strategy.num_workers()), Subject::batch,
             EpochTimer{}.steps_per_epoch);
}

}  // namespace benchmarks

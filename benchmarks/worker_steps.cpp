// Training steps of the tutorial's CNN on worker processes of one thread each, 64 samples on each of them: what a step costs that
// ends in an all-reduce.
//
//   benchmark_worker_steps --policy NAME --ranks N [--repetitions N]      prints lines "NAME/N 64 median min max", in us
//
// With one rank the process is alone and communicates with nobody. Times are real time. Policies: tcp,
// tcp_bfloat16 (half the bytes on the wire), auto.

#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "all_reduce_timing.hpp"
#include "fixed_batch.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/cluster/launcher.hpp"
#include "lockstep/cluster/run.hpp"
#include "lockstep/cluster/tf_config.hpp"
#include "lockstep/collectives/auto.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/ring.hpp"
#include "lockstep/collectives/tcp.hpp"
#include "lockstep/collectives/wire.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/losses/sparse_categorical_crossentropy.hpp"
#include "lockstep/metrics/accuracy.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "models.hpp"

namespace {

namespace ls = lockstep;
using benchmarks::TimingOptions;
using Subject = benchmarks::Cnn;

/// The mean of the steps of each epoch, which are many enough for the end of the epoch not to matter.
struct EpochTimer {
  static constexpr int steps_per_epoch = 20;
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin{};
  std::vector<double> times{};

  void on_epoch_begin(ls::Training&, int) { begin = Clock::now(); }
  void on_epoch_end(ls::Training&, int, ls::Logs&) {
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / steps_per_epoch);
  }
};
static_assert(ls::Callback<EpochTimer>);

template <ls::CollectivePolicy Policy>
void time_steps(const TimingOptions& options, const ls::Cluster& cluster,
                const ls::CommunicationOptions& communication) {
  constexpr int epochs = 5;  // of a repetition
  ls::MultiWorkerMirroredStrategy<Policy> strategy(cluster, {.communication_options = communication});
  auto model = ls::compile<Subject::Net>(strategy, ls::CompileOptions{.seed = 1},
                                         ls::SparseCategoricalCrossentropy{.from_logits = true},
                                         ls::SGD{.learning_rate = 1e-4}, ls::Accuracy{});
  const auto data = benchmarks::fixed_batch<Subject>(strategy.num_workers());
  const auto fit = [&](int count) {
    EpochTimer timer;
    model.fit(data, {.epochs = count, .verbose = 0, .steps_per_epoch = EpochTimer::steps_per_epoch}, timer);
    return timer.times;
  };
  (void)fit(1);
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    auto times = fit(epochs);
    if (strategy.is_chief()) benchmarks::print_times(options.policy, options.ranks, Subject::batch, std::move(times));
  }
}

}  // namespace

int main(int argc, char** argv) {
  return ls::run(argc, argv, [](int count, char** arguments) {
    const auto options = TimingOptions::parse(count, arguments);
    const ls::Cluster cluster = ls::cluster_from_environment();
    if (options.ranks > 1 && cluster.is_alone())
      return ls::launch_workers({.workers = options.ranks, .arguments = {arguments, arguments + count}});
    if (options.policy == "tcp")
      time_steps<ls::Ring<ls::Tcp>>(options, cluster, {});
    else if (options.policy == "tcp_bfloat16")
      time_steps<ls::Ring<ls::Tcp>>(options, cluster, {.wire = ls::Wire::bfloat16});
    else if (options.policy == "auto")
      time_steps<ls::Auto>(options, cluster, {});
    else
      throw ls::ConfigurationError(ls::concat({"unknown policy: '", options.policy, "'"}));
    return 0;
  });
}

// Training steps of the models in deep_models.hpp on worker processes of one thread each, a batch
// on each of them, and the memory that a process takes.
//
// benchmark_deep_worker_steps --policy MODEL --ranks N [--repetitions N] prints lines "MODEL/N
// BATCH median min max", in us of real time, and "MODEL_memory/N BATCH peak peak peak", in kB

#include <sys/resource.h>

#include <string>

#include "all_reduce_timing.hpp"
#include "deep_models.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/cluster/launcher.hpp"
#include "lockstep/cluster/run.hpp"
#include "lockstep/cluster/tf_config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "worker_step_timing.hpp"

namespace ls = lockstep;

namespace {

template <class Subject>
bool time_if_named(const benchmarks::TimingOptions& options, const ls::Cluster& cluster) {
  if (options.policy != Subject::name) return false;
  ls::MultiWorkerMirroredStrategy<> strategy(cluster);
  auto model = ls::compile<typename Subject::Net>(
      strategy, ls::CompileOptions{.seed = 1},
      ls::SparseCategoricalCrossentropy{.from_logits = true}, Subject::optimizer());
  benchmarks::time_steps(options, Subject::name, strategy.is_chief(), model,
                         benchmarks::random_batch<Subject>(strategy.num_workers()), Subject::batch,
                         Subject::steps_per_epoch);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  if (strategy.is_chief())
    benchmarks::print_times(std::string(Subject::name) + "_memory", options.ranks, Subject::batch,
                            {static_cast<double>(used.ru_maxrss) * 1.024});
  return true;
}

template <class... Subjects>
void time_one_of(const benchmarks::TimingOptions& options, const ls::Cluster& cluster) {
  if (!(time_if_named<Subjects>(options, cluster) || ...))
    throw ls::ConfigurationError(ls::concat({"unknown model: '", options.policy, "'"}));
}

}  // namespace

int main(int argc, char** argv) {
  return ls::run(argc, argv, [](int count, char** arguments) {
    const auto options = benchmarks::TimingOptions::parse(count, arguments);
    const ls::Cluster cluster = ls::cluster_from_environment();
    if (options.ranks > 1 && cluster.is_alone())
      return ls::launch_workers(
          {.workers = options.ranks, .arguments = {arguments, arguments + count}});
    time_one_of<benchmarks::CharGpt, benchmarks::ResNet20, benchmarks::BiLstm, benchmarks::Gpt2>(
        options, cluster);
    return 0;
  });
}

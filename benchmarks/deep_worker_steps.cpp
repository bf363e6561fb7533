// Training steps of the models in deep_models.hpp on worker processes of one thread each, a batch
// on each of them, and the memory that a process takes.
//
// benchmark_deep_worker_steps --policy MODEL --ranks N [--repetitions N] prints lines "MODEL/N
// BATCH median min max", in us of real time, and "MODEL_memory/N BATCH peak peak peak", in kB
//
// benchmark_deep_worker_steps --policy memory prints a Markdown table: the peak memory of each of
// 2 and 4 processes that train GPT-2, over TCP, beside what its arrays should take.
//
// benchmark_deep_worker_steps --policy recompute prints a Markdown table: memory and time of a step
// of GPT-2 with its whole context on one thread, with Recompute and without.

#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "all_reduce_timing.hpp"
#include "deep_models.hpp"
#include "lockstep/cluster/cluster_from_environment.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/cluster/launcher.hpp"
#include "lockstep/cluster/run.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/model/budget.hpp"
#include "worker_step_timing.hpp"

namespace ls = lockstep;

namespace {

/// The most memory that this process has had, in bytes.
double peak_memory() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_maxrss) * 1024;
}

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
  if (strategy.is_chief())
    benchmarks::print_times(std::string(Subject::name) + "_memory", options.ranks, Subject::batch,
                            {peak_memory() / 1000});
  return true;
}

template <class... Subjects>
void time_one_of(const benchmarks::TimingOptions& options, const ls::Cluster& cluster) {
  if (!(time_if_named<Subjects>(options, cluster) || ...))
    throw ls::ConfigurationError(ls::concat({"unknown model: '", options.policy, "'"}));
}

enum class Sharded { nothing, updates, gradients };

/// Trains Subject for three steps on this worker; the chief prints a row: what a rank's parameters,
/// gradients, slots and activations take by their sizes, with the program before there are any, the
/// least and the most that a rank has had, and the median of the last two steps.
template <class Subject, Sharded Which>
void print_memory(const ls::Cluster& cluster) {
  const double program = peak_memory();
  // Between hosts no rank has memory of another one, which would count on both.
  ls::MultiWorkerMirroredStrategy<ls::Ring<ls::Tcp>> strategy(
      cluster, {.sharded_updates = Which == Sharded::updates,
                .sharded_gradients = Which == Sharded::gradients});
  auto model = ls::compile<typename Subject::Net>(
      strategy, ls::CompileOptions{.seed = 1},
      ls::SparseCategoricalCrossentropy{.from_logits = true}, Subject::optimizer());
  const int ranks = strategy.num_workers();
  const ls::Budget budget = ls::budget<typename Subject::Net>(
      Subject::batch * static_cast<std::size_t>(ranks), Subject::optimizer(), ranks,
      Which == Sharded::updates, Which == Sharded::gradients);
  const double predicted = program + static_cast<double>(budget.memory);

  benchmarks::EpochTimer timer{.steps_per_epoch = 1};
  model.fit(benchmarks::random_batch<Subject>(ranks),
            {.epochs = 3, .verbose = 0, .steps_per_epoch = 1}, timer);
  const double peak = peak_memory();
  std::vector<double> peaks(static_cast<std::size_t>(ranks));
  strategy.run([&](auto& replica) {
    replica.collective().all_gather(std::as_bytes(std::span(&peak, 1)),
                                    std::as_writable_bytes(std::span(peaks)));
  });
  const auto [least, most] = std::ranges::minmax(peaks);
  constexpr const char* names[] = {"nothing", "updates", "gradients"};
  const auto mb = [](std::size_t bytes) { return static_cast<double>(bytes) / 1e6; };
  if (strategy.is_chief())
    std::printf(
        "| %d | %s | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f to %.0f | %.3f | %.2f |\n",
        ranks, names[static_cast<int>(Which)], mb(budget.arena), mb(budget.gradients),
        mb(budget.slots), mb(budget.batch), mb(budget.activations + budget.workspace),
        predicted / 1e6, least / 1e6, most / 1e6, most / predicted,
        (timer.times[1] + timer.times[2]) / 2e6);
}

/// Prints a row of Subject, whose step is the median of the last two of three.
template <class Subject>
void print_recompute(const ls::Cluster& cluster, const char* name) {
  const double program = peak_memory();
  ls::MultiWorkerMirroredStrategy<> strategy(cluster);
  auto model = ls::compile<typename Subject::Net>(
      strategy, ls::CompileOptions{.seed = 1},
      ls::SparseCategoricalCrossentropy{.from_logits = true}, Subject::optimizer());
  benchmarks::EpochTimer timer{.steps_per_epoch = 1};
  const ls::History history = model.fit(benchmarks::random_batch<Subject>(),
                                        {.epochs = 3, .verbose = 0, .steps_per_epoch = 1}, timer);
  const ls::Budget budget = ls::budget<typename Subject::Net>(Subject::batch, Subject::optimizer());
  const double peak = peak_memory(), predicted = program + static_cast<double>(budget.memory);
  std::printf("| %s | %.0f | %.0f | %.0f | %.3f | %.2f | %.9f |\n", name,
              static_cast<double>(budget.activations + budget.workspace) / 1e6, predicted / 1e6,
              peak / 1e6, peak / predicted, (timer.times[1] + timer.times[2]) / 2e6,
              history["loss"].back());
}

/// Has this program print a row for each policy, on so many ranks.
int print_rows(const std::string& program, int ranks, std::initializer_list<const char*> policies) {
  for (const char* const policy : policies)
    if (const int code = ls::launch_workers(
            {.workers = ranks,
             .arguments = {program, "--policy", policy, "--ranks", std::to_string(ranks)}});
        code != 0)
      return code;
  return 0;
}

int print_recompute_table(const std::string& program) {
  std::puts(
      "| blocks | layers, MB | predicted, MB | peak, MB | peak / predicted | step, s | loss |\n"
      "|---|---|---|---|---|---|---|");
  std::fflush(stdout);
  return print_rows(program, 1, {"blocks_kept", "blocks_recomputed"});
}

int print_memory_table(const std::string& program) {
  std::puts(
      "| ranks | sharded | parameters, MB | gradients | slots | batch and logits | layers "
      "| predicted | peak of a rank, MB | peak / predicted | step, s |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|");
  std::fflush(stdout);
  for (const int ranks : {2, 4})
    if (const int code =
            print_rows(program, ranks, {"memory_whole", "memory_updates", "memory_gradients"});
        code != 0)
      return code;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ls::run(argc, argv, [](int count, char** arguments) {
    const auto options = benchmarks::TimingOptions::parse(count, arguments);
    if (options.policy == "memory") return print_memory_table(arguments[0]);
    if (options.policy == "recompute") return print_recompute_table(arguments[0]);
    const ls::Cluster cluster = ls::cluster_from_environment();
    if (options.policy == "blocks_kept")
      return print_recompute<benchmarks::Gpt2Long<benchmarks::Kept>>(cluster, "kept"), 0;
    if (options.policy == "blocks_recomputed")
      return print_recompute<benchmarks::Gpt2Long<benchmarks::Recomputed>>(cluster, "recomputed"),
             0;
    if (options.policy == "memory_whole")
      return print_memory<benchmarks::Gpt2, Sharded::nothing>(cluster), 0;
    if (options.policy == "memory_updates")
      return print_memory<benchmarks::Gpt2, Sharded::updates>(cluster), 0;
    if (options.policy == "memory_gradients")
      return print_memory<benchmarks::Gpt2, Sharded::gradients>(cluster), 0;
    if (options.ranks > 1 && cluster.is_alone())
      return ls::launch_workers(
          {.workers = options.ranks, .arguments = {arguments, arguments + count}});
    time_one_of<benchmarks::CharGpt, benchmarks::ResNet20, benchmarks::BiLstm, benchmarks::Gpt2>(
        options, cluster);
    return 0;
  });
}

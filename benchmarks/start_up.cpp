// From the start of a process to the end of the first step of the tutorial's CNN (models.hpp):
// alone, and on worker processes that this program starts, over TCP.
//
// benchmark_start_up [ROUNDS, default 11] prints lines "WORKERS median min max", in ms

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fixed_batch.hpp"
#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/cluster/run.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "models.hpp"

namespace {

namespace ls = lockstep;

/// All processes of a machine see the same clock.
std::int64_t nanoseconds() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

constexpr const char* begin_variable = "LOCKSTEP_BENCHMARK_BEGIN";
constexpr std::string_view said = "first step after ns: ";

/// What one of the processes does that are timed.
int train(std::int64_t begin) {
  ls::MultiWorkerMirroredStrategy<ls::Ring<ls::Tcp>> strategy;
  auto model =
      ls::compile<benchmarks::Cnn::Net>(strategy, ls::CompileOptions{.seed = 1},
                                        ls::SparseCategoricalCrossentropy{.from_logits = true},
                                        ls::SGD{.learning_rate = 1e-3}, ls::Accuracy{});
  model.fit(benchmarks::fixed_batch<benchmarks::Cnn>(strategy.num_workers()),
            {.epochs = 1, .verbose = 0, .steps_per_epoch = 1});
  if (strategy.is_chief())
    std::printf("%.*s%lld\n", static_cast<int>(said.size()), said.data(),
                static_cast<long long>(nanoseconds() - begin));
  return 0;
}

/// Milliseconds.
double time_of(const std::string& command) {
  ::setenv(begin_variable, std::to_string(nanoseconds()).c_str(), 1);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(::popen(command.c_str(), "r"),
                                                               ::pclose);
  std::int64_t time = 0;
  char line[512];
  while (output != nullptr && std::fgets(line, sizeof line, output.get()) != nullptr) {
    const std::string_view text(line);
    if (const auto found = text.find(said); found != text.npos)
      std::from_chars(line + found + said.size(), line + text.size(), time);
  }
  if (time == 0) throw ls::Error(ls::concat({"no first step: ", command}));
  return static_cast<double>(time) / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  return ls::run(argc, argv, [](int count, char** arguments) {
    if (const char* const begin = std::getenv(begin_variable))
      return train(std::strtoll(begin, nullptr, 10));
    const int rounds = count > 1 ? std::max(1, std::atoi(arguments[1])) : 11;
    for (const int workers : {1, 2}) {
      std::vector<double> times;
      for (int i = 0; i < rounds; ++i)
        times.push_back(time_of(ls::concat(
            {"'", arguments[0], "'", workers > 1 ? " --workers 2" : "", " 2>/dev/null"})));
      std::sort(times.begin(), times.end());
      std::printf("%d %.1f %.1f %.1f\n", workers, times[times.size() / 2], times.front(),
                  times.back());
    }
    return 0;
  });
}

// The tutorial's CNN on MNIST by workers that wait for each other, or by workers with a parameter
// server: what benchmarks/parameter_servers.sh compares.
//
// benchmark_parameter_servers FOLDER mirrored|servers SEED SLOWER: one task of TF_CONFIG's cluster.
// Each step of the last worker takes SLOWER times as long as it needs: it sleeps. Worker 0 prints
// "milliseconds a step" and "test accuracy", at SGD 0.02 with momentum 0.9, 64 samples a worker,
// 5 x 109 steps.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/callbacks/lambda_callback.hpp"
#include "lockstep/cluster/run.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/datasets/image_sets.hpp"
#include "lockstep/extra/parameter_server.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "models.hpp"

namespace ls = lockstep;

namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class Strategy>
void train(Strategy& strategy, const char* folder, std::uint64_t seed, double slower) {
  constexpr std::int64_t batch = 64;
  const ls::ImageDataset digits = ls::load_mnist(folder);
  const auto data = ls::from_tensor_slices(digits.train.images / 255.0F, digits.train.labels)
                        .shuffle(60'000)
                        .repeat()
                        .batch(batch * strategy.num_workers());
  auto model = ls::compile<benchmarks::Cnn::Net>(
      strategy, {.seed = seed}, ls::SparseCategoricalCrossentropy{.from_logits = true},
      ls::SGD{.learning_rate = 0.02, .momentum = 0.9}, ls::Accuracy{});
  const bool is_slow = slower > 1 && strategy.worker_index() == strategy.num_workers() - 1;
  std::vector<double> steps;
  Clock::time_point begin;
  const ls::LambdaCallback clock{
      .on_train_batch_begin =
          [&](std::int64_t step) {
            // From one to the next: workers in step wait for each other after the batch's end, too.
            const Clock::time_point now = Clock::now();
            if (step > 0)
              steps.push_back(std::chrono::duration<double, std::milli>(now - begin).count());
            begin = now;
          },
      .on_train_batch_end =
          [&](std::int64_t, ls::Logs&) {
            if (is_slow) std::this_thread::sleep_for((Clock::now() - begin) * (slower - 1));
          }};
  model.fit(data, {.epochs = 5, .verbose = 0, .steps_per_epoch = 109}, clock);
  const auto test =
      ls::from_tensor_slices(digits.test.images / 255.0F, digits.test.labels).batch(100);
  const double accuracy = model.evaluate(test, {.verbose = 0}).at("accuracy");
  if (strategy.is_chief()) std::printf("%.3f %.4f\n", median(steps), accuracy);
}

}  // namespace

int main(int argc, char** argv) {
  return ls::run(argc, argv, [](int count, char** arguments) {
    if (count != 5)
      throw ls::ConfigurationError(
          "usage: benchmark_parameter_servers FOLDER mirrored|servers SEED SLOWER");
    const auto seed = static_cast<std::uint64_t>(std::atoll(arguments[3]));
    const double slower = std::atof(arguments[4]);
    if (std::string_view(arguments[2]) == "servers") {
      ls::ParameterServerStrategy strategy;
      train(strategy, arguments[1], seed, slower);
    } else {
      ls::MultiWorkerMirroredStrategy<> strategy;
      train(strategy, arguments[1], seed, slower);
    }
  });
}

// The models of models.hpp, and ResNet-20 and the char GPT of deep_models.hpp, on a GPU: ten steps
// beside those of the processor, and the time of a step of fit (gathering the batch, copies,
// forward, loss, accuracy, backward, update).
//
// benchmark_device [--seconds S] prints a line for each figure. It ends with 1 where losses differ
// by more than 1e-5 of their value.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <limits>
#include <string_view>
#include <vector>

#include "deep_models.hpp"
#include "fixed_batch.hpp"
#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/lambda_callback.hpp"
#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/extra/cuda.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "models.hpp"

namespace {

namespace ls = lockstep;
using Clock = std::chrono::steady_clock;

template <class Net, class Optimizer, class F>
void with_model(const Optimizer& optimizer, const F& f) {
  ls::OneDeviceStrategy strategy;
  auto model = ls::compile<Net>(strategy, ls::CompileOptions{.seed = 1},
                                ls::SparseCategoricalCrossentropy{.from_logits = true}, optimizer,
                                ls::Accuracy{});
  f(model);
}

template <class Net, class Data, class Optimizer>
std::vector<double> ten_losses(const Data& data, const Optimizer& optimizer) {
  std::vector<double> losses;
  const ls::LambdaCallback note{.on_train_batch_end = [&](auto&, auto, ls::Logs& logs) {
    losses.push_back(logs.at("loss"));
  }};
  with_model<Net>(optimizer, [&](auto& model) {
    model.fit(data, {.epochs = 1, .verbose = 0, .steps_per_epoch = 10}, note);
  });
  return losses;
}

/// Milliseconds of a step in each epoch of so many.
struct Timer {
  double seconds;
  int steps;
  std::vector<double> milliseconds = {};
  Clock::time_point begin = Clock::now(), last = begin;

  void on_epoch_end(ls::Training& training, int epoch, ls::Logs&) {
    const auto now = Clock::now();
    if (epoch > 0)
      milliseconds.push_back(std::chrono::duration<double, std::milli>(now - last).count() / steps);
    last = now;
    if (now - begin > std::chrono::duration<double>(seconds) && milliseconds.size() > 4)
      training.stop_training();
  }
};
static_assert(ls::Callback<Timer>);

template <class Net, class Data>
double step_time(const Data& data, double seconds) {
  Timer timer{.seconds = seconds, .steps = 100};
  with_model<Net>(ls::SGD{.learning_rate = 1e-4}, [&](auto& model) {
    model.fit(
        data,
        {.epochs = std::numeric_limits<int>::max(), .verbose = 0, .steps_per_epoch = timer.steps},
        timer);
  });
  auto& all = timer.milliseconds;
  std::ranges::sort(all);
  std::cout << "  " << all[all.size() / 2] << " ms (" << all.front() << " to " << all.back()
            << ")\n";
  return all[all.size() / 2];
}

template <class Subject, class Data>
bool holds(const Data& data, double seconds) {
  using Net = typename Subject::Net;
  using OnDevice = ls::On<ls::Cuda, Net>;
  double worst = 0;
  const auto compare = [&](const auto& optimizer) {
    const auto expected = ten_losses<Net>(data, optimizer);
    const auto got = ten_losses<OnDevice>(data, optimizer);
    for (std::size_t i = 0; i < expected.size(); ++i)
      worst = std::max(worst, std::abs(got[i] - expected[i]) / expected[i]);
  };
  compare(ls::SGD{.learning_rate = 1e-3, .momentum = 0.9});
  compare(ls::Adam{.learning_rate = 1e-4});
  std::cout << Subject::name << ": losses of ten steps differ by at most " << worst
            << "; a step on the processor, on the device:\n";
  step_time<Net>(data, seconds / 2);
  step_time<OnDevice>(data, seconds);
  return worst < 1e-5;
}

}  // namespace

int main(int argc, char** argv) try {
  const double seconds =
      argc > 2 && std::string_view(argv[1]) == "--seconds" ? std::atof(argv[2]) : 2;
  std::cout << ls::Cuda::instance().description() << '\n';
  bool all_hold = true;
  benchmarks::for_each_model([&]<class Subject>() {
    all_hold = holds<Subject>(benchmarks::fixed_batch<Subject>(), seconds) && all_hold;
  });
  const auto try_deep = [&]<class Subject>() {
    all_hold = holds<Subject>(benchmarks::random_batch<Subject>(), seconds) && all_hold;
  };
  try_deep.operator()<benchmarks::ResNet20>();
  try_deep.operator()<benchmarks::CharGpt>();
  return all_hold ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "benchmark_device: " << error.what() << '\n';
  return 2;
}

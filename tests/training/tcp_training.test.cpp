// Weights of samples and classes, accumulated gradients and averages: the same bits on threads and
// on workers over TCP, also where a run is cut off and resumed.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/callbacks/swap_ema_weights.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/metrics/wrappers.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/schedules.hpp"
#include "support/tcp_workers.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Net = ls::Sequential<ls::Input<4>, ls::Dense<3>>;

/// 22 samples with weights, in 5 batches of 5, the last of 2.
ls::AnyDataset data() {
  std::vector<double> x(22 * 4), weights(22);
  std::vector<int> y(22);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i * i));
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int>(i * i % 3);
  for (std::size_t i = 0; i < y.size(); ++i) weights[i] = static_cast<double>(i % 4) / 2;
  return ls::AnyDataset(
      ls::from_tensor_slices(ls::Tensor<double>(x, {22, 4}), y, weights).shuffle(22).batch(5));
}

struct Result {
  std::vector<double> losses, accuracies, validated, weights;
  std::int64_t iterations = 0;
  friend bool operator==(const Result&, const Result&) = default;
};

struct PowerFailure {
  std::optional<int> before_batch;
  int batches = 0;
  void on_train_batch_begin(ls::Training&, std::int64_t) {
    if (before_batch && batches++ == *before_batch) throw std::runtime_error("power failure");
  }
};

Result train(TcpStrategy& strategy, const std::string& folder, std::optional<int> fail_before) {
  const ls::Adam adam{
      .learning_rate =
          ls::ExponentialDecay{.initial_learning_rate = 0.1, .decay_steps = 2, .decay_rate = 0.8},
      .weight_decay = 0.01,
      .global_clipnorm = 0.2,
      .use_ema = true,
      .ema_momentum = 0.8,
      .gradient_accumulation_steps = 3};
  auto model = ls::compile<Net, double>(strategy, {.seed = 5},
                                        ls::SparseCategoricalCrossentropy{.from_logits = true},
                                        adam, ls::Weighted{ls::Accuracy{}});
  ls::BackupAndRestore backup{.backup_dir = folder + "-" + std::to_string(strategy.worker_index()),
                              .save_freq = 1,
                              .asynchronous = false};
  ls::SwapEMAWeights swap;
  PowerFailure failure{.before_batch = fail_before};
  const auto history = model.fit(
      data(),
      {.epochs = 3, .verbose = 0, .validation_data = data(), .class_weight = {{0, 0.5}, {2, 3.0}}},
      swap, failure, backup);
  Result result{.losses = history["loss"],
                .accuracies = history["accuracy"],
                .validated = history["val_loss"],
                .weights = {},
                .iterations = model.iterations()};
  for (const auto& weight : model.get_weights())
    result.weights.insert(result.weights.end(), weight.values.begin(), weight.values.end());
  return result;
}

/// That of each worker.
std::vector<Result> run(int workers, int replicas, const std::string& folder,
                        std::optional<int> fail_before = {}) {
  return on_tcp_workers<Result>(
      workers, replicas, fail_before ? "power failure" : "",
      [&](TcpStrategy& strategy) { return train(strategy, folder, fail_before); });
}

}  // namespace

TEST_CASE(
    "sample_weight, class_weight, gradient_accumulation_steps, use_ema: threads and workers over "
    "TCP have the same bits, also resumed at any step") {
  const TemporaryFolder folder;
  const Result one = run(1, 1, folder.path("one")).front();
  const Result threads = run(1, 2, folder.path("threads")).front();
  CHECK(one.iterations == 5);  // 15 steps
  REQUIRE(one.weights.size() == threads.weights.size());
  for (std::size_t i = 0; i < one.weights.size(); ++i)
    CHECK(one.weights[i] == doctest::Approx(threads.weights[i]).epsilon(1e-9));
  for (const Result& worker : run(2, 1, folder.path("workers"))) CHECK(worker == threads);
  for (const int step : {1, 7, 11}) {
    CAPTURE(step);
    for (const int workers : {1, 2}) {
      CAPTURE(workers);
      const std::string own = folder.path(std::to_string(10 * step + workers));
      run(workers, 3 - workers, own, step);
      for (const Result& resumed : run(workers, 3 - workers, own)) {
        CHECK(resumed.weights == threads.weights);
        CHECK(resumed.losses.back() == threads.losses.back());
        CHECK(resumed.accuracies.back() == threads.accuracies.back());
        CHECK(resumed.validated.back() == threads.validated.back());
        CHECK(resumed.iterations == threads.iterations);
      }
    }
  }
}

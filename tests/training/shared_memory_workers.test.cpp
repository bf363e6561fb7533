// fit on workers that share memory, which update a share of the parameters each: the bits of
// workers that do not.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// Its parameters do not fit into a short message.
using WideNet = ls::Sequential<ls::Input<4>, ls::Dense<1200, ls::ReLU>, ls::Dense<3>>;

struct Outcome {
  std::vector<std::uint32_t> crcs;  ///< after each fit
  std::vector<double> losses;       ///< of every step, then of evaluate
  std::vector<float> predictions;

  bool operator==(const Outcome&) const = default;
};

/// Keeps the parameters after the second step, and puts them back after the fifth.
struct KeepAndPutBack {
  std::vector<std::byte> kept{};

  void on_train_batch_end(ls::Training& training, std::int64_t batch, ls::Logs&) {
    if (batch == 1) kept = training.parameters();
    if (batch == 4) training.set_parameters(kept);
  }
};

/// A worker's program; 23 samples in batches of 5 leave a worker without samples now and then.
template <class Strategy>
Outcome work(Strategy& strategy, double momentum) {
  const TinyData data(23);
  const auto batches = ls::from_tensor_slices(data.x, data.y).shuffle(23).batch(5);
  auto model = ls::compile<WideNet>(
      strategy, {.seed = 5}, ls::SparseCategoricalCrossentropy{.from_logits = true},
      ls::SGD{.learning_rate = 0.1, .momentum = momentum, .weight_decay = 0.01}, ls::Accuracy{});
  Outcome outcome;
  const auto fit = [&](int epochs) {
    Recorder recorder;
    KeepAndPutBack keep;
    model.fit(batches, {.epochs = epochs, .verbose = 0}, recorder, keep);
    for (const ls::Logs& logs : recorder.batch_logs) outcome.losses.push_back(logs.at("loss"));
    outcome.crcs.push_back(model.parameters_crc32c());
  };
  // Five steps: what is kept of the parameters and what is in force may lie in either arena.
  fit(1);
  fit(2);
  auto weights = model.get_weights();
  for (auto& weight : weights)
    for (float& value : weight.values)
      value *= strategy.is_chief() ? 0.5F : 1e9F;  // the chief's count
  model.set_weights(weights);
  fit(1);
  outcome.losses.push_back(model.evaluate(batches, {.verbose = 0}).at("loss"));
  const auto predictions = model.predict(batches);
  outcome.predictions.assign(predictions.data(), predictions.data() + predictions.size());
  return outcome;
}

template <class Policy>
std::vector<Outcome> on_workers(int size, double momentum) {
  const auto addresses = lockstep_test::free_addresses(size);
  std::vector<Outcome> outcomes(addresses.size());
  lockstep_test::rethrow_first(lockstep_test::run_threads(size, [&](int rank) {
    ls::Cluster cluster;
    cluster.spec.worker = addresses;
    cluster.task.index = rank;
    ls::MultiWorkerMirroredStrategy<Policy> strategy(
        cluster, {.communication_options = lockstep_test::patient_options()});
    outcomes[static_cast<std::size_t>(rank)] = work(strategy, momentum);
  }));
  return outcomes;
}

}  // namespace

TEST_CASE(
    "workers that share memory: the bits of workers over TCP, through several fits, with slots and "
    "without") {
  for (const int size : {2, 3}) {
    for (const double momentum : {0.0, 0.5}) {
      CAPTURE(size);
      CAPTURE(momentum);
      const std::vector<Outcome> shared = on_workers<ls::Auto>(size, momentum);
      const std::vector<Outcome> tcp = on_workers<ls::Ring<ls::Tcp>>(size, momentum);
      REQUIRE(shared[0].losses.size() == 21);
      for (const Outcome& outcome : shared) CHECK(outcome == tcp[0]);
      CHECK(shared[0].crcs[0] != shared[0].crcs[1]);
    }
  }
}

// Training's parameters and set_parameters, by callbacks of a real fit: in a net with moving
// statistics, one puts back the weights of the best epoch, as EarlyStopping(restore_best_weights)
// does.
#include "lockstep/callbacks/training.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "support/model_testing.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Net =
    ls::Sequential<ls::Input<4>, UserDense<6>, ls::BatchNormalization<>, UserReLU, UserDense<3>>;
using Values = std::vector<std::vector<float>>;

template <class Model>
Values values_of(const Model& model) {
  Values values;
  for (const auto& weight : model.get_weights()) values.push_back(weight.values);
  return values;
}

/// The epoch `best` is declared the best one. Its weights are put back after the last epoch.
template <class Model>
struct RestoreBest {
  const Model& model;
  int best;
  int last;
  std::vector<std::byte> kept = {};
  Values kept_values = {}, last_values = {};

  void on_epoch_end(ls::Training& training, int epoch, ls::Logs&) {
    if (epoch == best) {
      kept = training.parameters();
      kept_values = values_of(model);
    }
    if (epoch == last) {
      last_values = values_of(model);
      training.set_parameters(kept);
    }
  }
};

/// Takes the weights away for the time of each validation.
struct AwayInTests {
  std::vector<std::byte> kept = {};
  void on_test_begin(ls::Training& training) {
    kept = training.parameters();
    training.set_parameters(std::vector<std::byte>(kept.size()));
  }
  void on_test_end(ls::Training& training, ls::Logs&) const { training.set_parameters(kept); }
};

/// Takes the weights away after each step, and puts them back before the next one.
struct AwayBetweenSteps {
  std::vector<std::byte> kept = {};
  void on_train_batch_begin(ls::Training& training, std::int64_t) const {
    if (!kept.empty()) training.set_parameters(kept);
  }
  void on_train_batch_end(ls::Training& training, std::int64_t, ls::Logs&) {
    kept = training.parameters();
    training.set_parameters(std::vector<std::byte>(kept.size()));
  }
  void on_train_end(ls::Training& training, ls::Logs&) const { training.set_parameters(kept); }
};

ls::AnyDataset batches(int samples) {
  const TinyData data(samples);
  return ls::AnyDataset(ls::from_tensor_slices(data.x, data.y).batch(8));
}

template <class S>
auto compile_net(S& strategy) {
  return ls::compile<Net>(strategy, {.seed = 3},
                          ls::SparseCategoricalCrossentropy{.from_logits = true},
                          ls::SGD{.learning_rate = 0.1});
}

const ls::FitOptions four_epochs{.epochs = 4, .verbose = 0};

}  // namespace

TEST_CASE(
    "Training: the weights of the best epoch come back with their moving statistics, in every "
    "replica") {
  for (const int replicas : {1, 3}) {
    CAPTURE(replicas);
    ls::MirroredStrategy strategy({.replicas = replicas}), one({.replicas = 1});
    auto model = compile_net(strategy);
    RestoreBest<decltype(model)> restore{.model = model, .best = 1, .last = 3};
    model.fit(batches(40), four_epochs, restore);
    REQUIRE(restore.kept_values.size() == 8);
    for (std::size_t i = 0; i < 8; ++i) CHECK(restore.kept_values[i] != restore.last_values[i]);
    CHECK(values_of(model) == restore.kept_values);

    // Each replica predicts its part of every batch with statistics of its own.
    auto same = compile_net(one);
    same.set_weights(model.get_weights());
    CHECK(model.predict(batches(40)) == same.predict(batches(40)));
  }
}

TEST_CASE("Training: the weights of the best epoch are those of all workers") {
  std::vector<Values> kept(3), restored(3);
  std::vector<std::vector<std::byte>> bytes(3);
  const auto failures = run_workers(3, [&](WorkerStrategy& strategy) {
    const auto worker = static_cast<std::size_t>(strategy.worker_index());
    auto model = compile_net(strategy);
    RestoreBest<decltype(model)> restore{.model = model, .best = 2, .last = 3};
    model.fit(batches(40), four_epochs, restore);
    bytes[worker] = restore.kept;
    kept[worker] = restore.kept_values;
    restored[worker] = values_of(model);
  });
  for (std::size_t worker = 0; worker < 3; ++worker) {
    CHECK(failures[worker] == "");
    CHECK(bytes[worker] == bytes[0]);
    CHECK(restored[worker] == kept[0]);
  }
}

TEST_CASE(
    "Training: a callback may take the weights away during validation, or between steps, from all "
    "replicas") {
  ls::FitOptions options = four_epochs;
  options.validation_data = batches(16);
  const auto train = [&](auto&... callbacks) {
    ls::MirroredStrategy strategy({.replicas = 3});
    auto model = compile_net(strategy);
    model.fit(batches(40), options, callbacks...);
    return values_of(model);
  };
  AwayInTests in_tests;
  AwayBetweenSteps between_steps;
  const Values undisturbed = train();
  CHECK(train(in_tests) == undisturbed);
  CHECK(train(between_steps) == undisturbed);
}

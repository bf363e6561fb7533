// Passes over the data, counted over several fits.
#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "data/support.hpp"
#include "lockstep/callbacks/model_checkpoint.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Net = ls::Sequential<ls::Input<4>, ls::Dense<8, ls::ReLU>, ls::Dropout<0.3>, ls::Dense<3>>;
const ls::SparseCategoricalCrossentropy loss{.from_logits = true};
const ls::SGD sgd{.learning_rate = 0.1, .momentum = 0.9};

/// 22 samples in batches of 5, which record their numbers when they are read.
ls::AnyDataset batches(Indices* read = nullptr, bool repeated = false) {
  const TinyData data(22);
  const auto samples = ls::from_tensor_slices(data.x, data.y)
                           .map([read](auto& sample) {
                             if (read != nullptr) read->push_back(sample.index);
                           })
                           .shuffle(22);
  return repeated ? ls::AnyDataset(samples.repeat().batch(5)) : ls::AnyDataset(samples.batch(5));
}

/// The parameters after fits with these numbers of epochs.
template <class S>
std::uint32_t trained(S& strategy, const std::vector<int>& fits) {
  auto model = ls::compile<Net>(strategy, {.seed = 3}, loss, sgd);
  for (const int epochs : fits) model.fit(batches(), {.epochs = epochs, .verbose = 0});
  return model.parameters_crc32c();
}

}  // namespace

TEST_CASE("fit: k fits of one epoch are one fit of k epochs, bit for bit, whatever the replicas") {
  for (const int replicas : {1, 3}) {
    CAPTURE(replicas);
    ls::MirroredStrategy strategy({.replicas = replicas});
    const std::uint32_t whole = trained(strategy, {4});
    CHECK(trained(strategy, {1, 1, 1, 1}) == whole);
    CHECK(trained(strategy, {2, 2}) == whole);
    CHECK(trained(strategy, {3}) != whole);
  }
}

TEST_CASE("fit: the same on two workers, where the chief's number of passes counts") {
  const auto failures = run_workers(2, [](WorkerStrategy& strategy) {
    const std::uint32_t whole = trained(strategy, {3}), parts = trained(strategy, {1, 2});
    CHECK(whole == parts);
  });
  for (const std::string& failure : failures) CHECK(failure == "");
}

TEST_CASE("fit: every fit begins the next pass; evaluate and predict take no part in the count") {
  Indices read;
  ls::MirroredStrategy strategy({.replicas = 1});
  auto model = ls::compile<Net>(strategy, {.seed = 3}, loss, sgd);
  const auto pass = [&](std::int64_t number, bool repeated = false) {
    return flat(batches_of(batches(nullptr, repeated), {.seed = 3, .number = number}, 5));
  };
  const auto fit = [&](const ls::AnyDataset& data, ls::FitOptions options) {
    read.clear();
    options.verbose = 0;
    model.fit(data, options);
    return read;
  };
  CHECK(fit(batches(&read), {}) == pass(0));
  CHECK(fit(batches(&read), {}) == pass(1));
  model.evaluate(batches(), {.verbose = 0});
  (void)model.predict(batches());
  CHECK(fit(batches(&read), {}) == pass(2));
  // A pass that was only partly used does not go on: as in Keras, each fit makes a new iterator.
  CHECK(fit(batches(&read, true), {.steps_per_epoch = 2}) == slice(pass(3, true), 0, 10));
  CHECK(fit(batches(&read, true), {.steps_per_epoch = 2}) == slice(pass(4, true), 0, 10));
  CHECK(fit(batches(&read), {.epochs = 3, .initial_epoch = 3}).empty());  // nothing to do: no pass
  CHECK(fit(batches(&read), {}) == pass(5));
  CHECK(fit(batches(&read), {.epochs = 9, .initial_epoch = 8}) == pass(8));
  CHECK(fit(batches(&read), {.epochs = 3, .initial_epoch = 2}) == pass(9));
}

TEST_CASE("fit: a call in a loop, with a part of the data each, sees all of them") {
  Indices read;
  ls::MirroredStrategy strategy({.replicas = 1});
  auto model = ls::compile<Net>(strategy, {.seed = 3}, loss, sgd);
  const TinyData data(24);
  const auto some = ls::from_tensor_slices(data.x, data.y)
                        .map([&](auto& sample) { read.push_back(sample.index); })
                        .shuffle(24)
                        .take(12)
                        .batch(6);
  for (int i = 0; i < 5; ++i) model.fit(some, {.verbose = 0});
  CHECK(std::set<std::int64_t>(read.begin(), read.end()).size() > 18);
}

TEST_CASE("fit: the number of passes is saved and loaded; one that had begun is over then") {
  Indices read;
  ls::MirroredStrategy strategy({.replicas = 1});
  const TemporaryFolder folder;
  const std::string whole = folder.path("whole"), part = folder.path("part");
  auto model = ls::compile<Net>(strategy, {.seed = 3}, loss, sgd);
  model.fit(batches(), {.epochs = 2, .verbose = 0},
            ls::ModelCheckpoint({.filepath = folder.path("checkpoint")}));
  model.save(whole);
  model.fit(batches(nullptr, true), {.verbose = 0, .steps_per_epoch = 2},
            ls::ModelCheckpoint({.filepath = part}));
  const auto first_pass = [&](const std::string& path) {
    auto loaded = ls::compile<Net>(strategy, {.seed = 8}, loss, sgd);
    loaded.load(path);
    read.clear();
    loaded.fit(batches(&read), {.verbose = 0});
    for (std::int64_t number = 0; number < 10; ++number)
      if (read == flat(batches_of(batches(), {.seed = 3, .number = number}))) return number;
    return std::int64_t{-1};
  };
  CHECK(first_pass(whole) == 2);
  CHECK(first_pass(folder.path("checkpoint")) == 2);
  CHECK(first_pass(part) == 3);
}

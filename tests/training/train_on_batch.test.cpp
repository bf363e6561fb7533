// train_on_batch, test_on_batch and predict_on_batch.
#include "lockstep/training/loops.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "support/model_testing.hpp"
#include "support/tiny_trainer.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Matrix = TinyTrainer::Matrix;

constexpr int batch_size = 5;

/// Calls f(x, y) for each batch of 5 rows, the last one smaller.
template <class F>
void each_batch(const TinyData& data, F&& f) {
  const auto samples = static_cast<int>(data.y.size());
  for (int first = 0; first < samples; first += batch_size) {
    const int last = std::min(first + batch_size, samples);
    f(Matrix(data.x.middleRows(first, last - first)),
      std::vector<int>(data.y.begin() + first, data.y.begin() + last));
  }
}

ls::AnyDataset batches_of(const TinyData& data) {
  return ls::from_tensor_slices(data.x, data.y).batch(batch_size);
}

}  // namespace

TEST_CASE("train_on_batch: the steps of fit, bit for bit, with the figures of each batch alone") {
  const TinyData data(22);
  for (const int replicas : {1, 3}) {
    TinyTrainer fitted({.replicas = replicas, .momentum = 0.9, .global_clipnorm = 0.5}),
        stepped({.replicas = replicas, .momentum = 0.9, .global_clipnorm = 0.5});
    fitted.fit(batches_of(data), {.epochs = 2});
    std::vector<double> losses;
    for (int epoch = 0; epoch < 2; ++epoch)
      each_batch(data, [&](const Matrix& x, const std::vector<int>& y) {
        const ls::Logs before = stepped.test_on_batch(x, y);
        const ls::Logs logs = stepped.train_on_batch(x, y);
        losses.push_back(logs.at("loss"));
        CHECK(logs.at("loss") == before.at("loss"));
        CHECK(logs.at("accuracy") == before.at("accuracy"));
      });
    CHECK(stepped.parameters_crc32c() == fitted.parameters_crc32c());
    CHECK(stepped.iterations() == 10);
    CHECK(losses.at(5) < losses.at(0));  // the same batch in the next pass
    fitted.fit(batches_of(data));
    stepped.fit(batches_of(data));  // goes on from there
    CHECK(stepped.parameters_crc32c() == fitted.parameters_crc32c());
  }
}

TEST_CASE(
    "test_on_batch, predict_on_batch: evaluate and predict on one batch; nothing is trained") {
  const TinyData data(7);
  TinyTrainer trainer({.replicas = 2});
  const std::uint32_t before = trainer.parameters_crc32c();
  const ls::Logs logs = trainer.test_on_batch(data.x, data.y);
  CHECK(logs.at("loss") == trainer.evaluate(data, {.batch_size = 7}).at("loss"));
  CHECK(trainer.predict_on_batch(data.x) == trainer.predict(data, {.batch_size = 7}));
  CHECK(trainer.parameters_crc32c() == before);
  CHECK(trainer.iterations() == 0);
}

TEST_CASE("train_on_batch: batches that make no sense") {
  TinyTrainer trainer;
  CHECK(message_of<ls::DataError>([&] { trainer.train_on_batch(Matrix(0, 4), {}); }) ==
        "train_on_batch: the batch has no rows; give at least one");
  CHECK(
      contains(message_of<ls::DataError>([&] { trainer.train_on_batch(Matrix::Zero(2, 4), {1}); }),
               "one target"));
  CHECK(contains(message_of<ls::DataError>([&] {
                   trainer.train_on_batch(Matrix::Zero(2, 3), {1, 2});
                 }),
                 "train_on_batch"));
  CHECK(contains(message_of<ls::DataError>([&] {
                   trainer.train_on_batch(Matrix::Zero(2, 4), {1, 7});
                 }),
                 "sample 1"));
  CHECK(trainer.iterations() == 0);
  Recorder recorder;
  const TinyData data(4);
  recorder.at_epoch_end = [&](ls::Training&, int, ls::Logs&) {
    CHECK(contains(message_of<ls::Error>([&] { trainer.train_on_batch(data.x, data.y); }),
                   "this model is in fit"));
    CHECK(trainer.predict_on_batch(data.x).rows() == 4);
    CHECK(trainer.test_on_batch(data.x, data.y).at("loss") > 0);
  };
  trainer.fit(batches_of(data), {}, &recorder);
}

TEST_CASE(
    "train_on_batch: each worker takes its part of a batch that all give; other data are refused") {
  const TinyData data(22);
  TinyTrainer alone({.seed = 3});
  std::vector<double> losses;
  each_batch(data, [&](const Matrix& x, const std::vector<int>& y) {
    losses.push_back(alone.train_on_batch(x, y).at("loss"));
  });
  std::vector<std::uint32_t> sums(3);
  const auto failures = run_workers(3, [&](WorkerStrategy& strategy) {
    auto model = ls::compile<TinyNet>(strategy, {.seed = 3},
                                      ls::SparseCategoricalCrossentropy{.from_logits = true},
                                      ls::SGD{.learning_rate = 0.1}, ls::Accuracy{});
    std::size_t step = 0;
    each_batch(data, [&](const Matrix& x, const std::vector<int>& y) {
      CHECK(model.train_on_batch(x, y).at("loss") == doctest::Approx(losses[step++]).epsilon(1e-5));
    });
    sums[static_cast<std::size_t>(strategy.worker_index())] = model.parameters_crc32c();
    const TinyData own(5, static_cast<std::uint64_t>(strategy.worker_index()) + 1);
    CHECK(contains(message_of<ls::ConfigurationError>([&] { model.train_on_batch(own.x, own.y); }),
                   "checksum"));
  });
  CHECK(failures == std::vector<std::string>(3));
  CHECK(sums == std::vector<std::uint32_t>(3, sums[0]));
}

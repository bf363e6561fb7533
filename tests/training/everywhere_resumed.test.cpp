// Positions in a pipeline of many stages, metrics whose state is more than a number, schedules and
// files of callbacks: equal figures on one device, on threads and on workers over TCP, also where a
// run is cut off at a random step and resumed.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/callbacks/csv_logger.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/data/filter.hpp"
#include "lockstep/data/joined_stages.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/metrics/confusion_matrix.hpp"
#include "lockstep/metrics/precision_recall.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/schedules.hpp"
#include "support/messages.hpp"
#include "support/tcp_workers.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Net = ls::Sequential<ls::Input<4>, ls::Dense<8, ls::Tanh>, ls::Dropout<0.25>, ls::Dense<3>,
                           ls::Softmax>;

auto rows(std::size_t count, double factor) {
  std::vector<double> x(count * 4);
  std::vector<int> y(count);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(factor * static_cast<double>(i * i));
  for (std::size_t i = 0; i < count; ++i) y[i] = static_cast<int>(i * i % 3);
  return ls::from_tensor_slices(ls::Tensor<double>(x, {count, 4}), y);
}

/// Shuffled and augmented rows, mixed with filtered ones, in an order that goes on over the epochs.
ls::AnyDataset data() {
  const auto augmented = rows(13, 1).shuffle(5).map([](auto& sample) {
    using Number = std::remove_reference_t<decltype(sample.x[0])>;
    ls::RandomStream random(sample.key);
    for (auto& number : sample.x) number += static_cast<Number>(random.uniform(-0.2, 0.2));
  });
  const auto filtered =
      rows(9, 2).filter([](const auto& sample) { return sample.x[1] > -0.5; }).shuffle(3);
  const auto mixed = ls::sample_from_datasets({augmented.repeat(), filtered.repeat()},
                                              {.weights = {0.7, 0.3}, .seed = 11});
  return ls::AnyDataset(
      ls::interleave({mixed.take(31), rows(6, 3)}, {.cycle_length = 2, .block_length = 2})
          .batch(5)
          .prefetch(2));
}

struct Result {
  std::vector<double> figures = {}, rates = {}, weights = {};
  std::string csv = {};
  std::int64_t iterations = 0;
};

struct PowerFailure {
  std::optional<std::int64_t> before_update;
  void on_train_batch_begin(ls::Training& training, std::int64_t) const {
    if (before_update && training.iterations() == *before_update)
      throw std::runtime_error("power failure");
  }
};

Result train(TcpStrategy& strategy, const std::string& folder,
             std::optional<std::int64_t> fail_before, std::uint64_t seed) {
  const ls::AdamW adamw{
      .learning_rate =
          ls::CosineDecayRestarts{
              .initial_learning_rate = 0.1, .first_decay_steps = 5, .t_mul = 1.5, .m_mul = 0.8},
      .learning_rate_factors = {{.variables = {"dense_1"}, .factor = 0.5}}};
  auto model =
      ls::compile<Net, double>(strategy, {.seed = seed}, ls::SparseCategoricalCrossentropy{}, adamw,
                               ls::Accuracy{}, ls::SparseTopKCategoricalAccuracy{.k = 2},
                               ls::Precision{}, ls::ConfusionMatrix{}, ls::MeanIoU{});
  const std::string own = folder + "-" + std::to_string(strategy.worker_index());
  ls::BackupAndRestore backup{.backup_dir = own, .save_freq = 1, .asynchronous = false};
  ls::CSVLogger csv({.filename = own + ".csv"});
  const PowerFailure failure{fail_before};
  const ls::History history = model.fit(
      data(), {.epochs = 3, .verbose = 0, .validation_data = data()}, csv, failure, backup);
  Result result{.iterations = model.iterations()};
  for (const auto& [name, values] : history) result.figures.push_back(values.back());
  result.rates = history["learning_rate"];
  for (const auto& weight : model.get_weights())
    result.weights.insert(result.weights.end(), weight.values.begin(), weight.values.end());
  result.csv = lockstep_test::file_text(own + ".csv");
  return result;
}

/// That of each worker.
std::vector<Result> run(int workers, int replicas, const std::string& folder,
                        std::optional<std::int64_t> fail_before = {}, std::uint64_t seed = 5) {
  return on_tcp_workers<Result>(
      workers, replicas, fail_before ? "power failure" : "",
      [&](TcpStrategy& strategy) { return train(strategy, folder, fail_before, seed); });
}

}  // namespace

TEST_CASE(
    "stages, metrics, schedules and files: equal figures on one device, on threads and on workers, "
    "resumed at a random step") {
  const TemporaryFolder folder;
  const Result one = run(1, 1, folder.path("one")).front();
  const Result threads = run(1, 2, folder.path("threads")).front();
  REQUIRE(one.iterations == threads.iterations);
  REQUIRE(one.weights.size() == threads.weights.size());
  REQUIRE(one.figures.size() == threads.figures.size());
  CHECK(one.figures.size() > 20);
  CHECK(one.rates == threads.rates);
  for (std::size_t i = 0; i < one.weights.size(); ++i)
    CHECK(one.weights[i] == doctest::Approx(threads.weights[i]).epsilon(1e-8));
  for (std::size_t i = 0; i < one.figures.size(); ++i)
    CHECK(one.figures[i] == doctest::Approx(threads.figures[i]).epsilon(1e-8));

  const auto check = [](const Result& got, const Result& expected) {
    CHECK(got.weights == expected.weights);
    CHECK(got.figures == expected.figures);
    CHECK(got.iterations == expected.iterations);
  };
  const std::vector<Result> workers = run(2, 1, folder.path("workers"));
  for (const Result& worker : workers) check(worker, threads);
  CHECK(workers[0].csv == threads.csv);

  ls::RandomStream random{ls::RandomKey(2026)};
  struct Place {
    int workers, replicas;
  };
  int number = 0;
  for (const Place place : {Place{1, 1}, Place{1, 2}, Place{2, 1}, Place{2, 1}}) {
    const auto step =
        static_cast<std::int64_t>(random.uniform(1, static_cast<double>(one.iterations)));
    CAPTURE(step);
    CAPTURE(place.workers);
    CAPTURE(place.replicas);
    const std::string own = folder.path("cut" + std::to_string(number++));
    run(place.workers, place.replicas, own, step);
    const Result& whole = place.workers * place.replicas == 1 ? one : threads;
    const std::vector<Result> resumed =
        run(place.workers, place.replicas, own, {}, 6);  // (The saved seed wins.)
    for (const Result& worker : resumed) check(worker, whole);
    CHECK(resumed[0].csv == whole.csv);
  }
}

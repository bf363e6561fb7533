// fit on several workers, each with a model of its own.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/temporary_folder.hpp"
#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/losses/sparse_categorical_crossentropy.hpp"
#include "lockstep/metrics/accuracy.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "model/model_testing.hpp"
#include "model/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// What one worker's program does, and what came of it.
struct Worker {
  std::uint64_t seed = 1;
  double learning_rate = 0.2;
  ls::FitOptions options{.epochs = 3, .verbose = 0};
  ls::AnyDataset data;
  Recorder recorder;
  std::string backup_dir;
  std::int64_t save_freq = ls::SaveFrequency::epoch;
  std::vector<ls::Weight<float>> weights;  ///< set before fit

  std::string failure;
  std::uint32_t crc = 0;
  std::uint64_t seed_in_force = 0;
  std::vector<double> losses;  ///< of every step
  std::vector<int> epochs;
  double val_loss = 0;
  double rows_sum = 0;
};

/// Trains on all workers; the model's type is compiled once.
void train(std::vector<Worker>& workers) {
  const auto failures = run_workers(static_cast<int>(workers.size()), [&](WorkerStrategy& strategy) {
    Worker& worker = workers[static_cast<std::size_t>(strategy.worker_index())];
    auto model =
        ls::compile<TinyNet>(strategy, {.seed = worker.seed}, ls::SparseCategoricalCrossentropy{.from_logits = true},
                             ls::SGD{.learning_rate = worker.learning_rate, .momentum = 0.5}, ls::Accuracy{});
    worker.seed_in_force = model.seed();
    if (!worker.weights.empty()) model.set_weights(worker.weights);
    ls::BackupAndRestore backup{.backup_dir = worker.backup_dir, .save_freq = worker.save_freq, .asynchronous = false};
    const ls::History history = model.fit(worker.data, worker.options, worker.recorder, backup);
    for (const ls::Logs& logs : worker.recorder.batch_logs) worker.losses.push_back(logs.at("loss"));
    worker.epochs = history.epoch;
    worker.crc = model.parameters_crc32c();
    worker.weights = model.get_weights();
    worker.val_loss = model.evaluate(worker.data, {.verbose = 0, .steps = 3}).at("loss");
    worker.rows_sum = static_cast<double>(model.predict(worker.data, {.steps = 3}).cwiseAbs().sum());
  });
  for (std::size_t i = 0; i < workers.size(); ++i) workers[i].failure = failures[i];
}

ls::AnyDataset batches(int samples, std::int64_t batch, ls::DatasetOptions options = {}) {
  const TinyData data(samples);
  return ls::AnyDataset(ls::from_tensor_slices(data.x, data.y).with_options(options).shuffle(samples).batch(batch));
}

/// `count` equal workers, on 22 samples in batches of 5, with backups in folders of their own.
std::vector<Worker> equal_workers(int count, const TemporaryFolder& folder) {
  std::vector<Worker> workers(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < workers.size(); ++i) {
    workers[i].data = batches(22, 5);
    workers[i].backup_dir = folder.path(std::to_string(i));
  }
  return workers;
}

void check_all_equal(const std::vector<Worker>& workers) {
  for (const Worker& worker : workers) {
    CHECK(worker.failure == "");
    CHECK(worker.crc == workers[0].crc);
    CHECK(worker.losses == workers[0].losses);
    CHECK(worker.epochs == workers[0].epochs);
    CHECK(worker.seed_in_force == workers[0].seed_in_force);
    CHECK(worker.val_loss == workers[0].val_loss);
    CHECK(worker.rows_sum == workers[0].rows_sum);
  }
}

/// Two files with few and with many samples; a worker reads its own.
struct TwoFiles : RowDataset {
  TwoFiles() : RowDataset(TinyData(24), 4) {}
  [[nodiscard]] ls::AutoShardPolicy auto_shard_policy() const { return ls::AutoShardPolicy::file; }
  [[nodiscard]] std::int64_t num_files() const { return 2; }
  void shard_files(int, int index) {
    static_cast<RowDataset&>(*this) = index == 0 ? RowDataset(TinyData(4, 1), 2) : RowDataset(TinyData(20, 2), 2);
  }
};

}  // namespace

TEST_CASE("workers: the chief's seed and variables count, and all have the same figures and bits") {
  const TemporaryFolder folder;
  std::vector<Worker> alone = equal_workers(1, folder);
  train(alone);
  for (int count = 2; count <= 4; ++count) {
    std::vector<Worker> workers = equal_workers(count, folder);
    for (std::size_t i = 0; i < workers.size(); ++i) workers[i].seed = i + 1;
    train(workers);
    check_all_equal(workers);
    CHECK(workers[0].seed_in_force == 1);
    REQUIRE(workers[0].losses.size() == alone[0].losses.size());
    for (std::size_t step = 0; step < alone[0].losses.size(); ++step)
      CHECK(std::abs(workers[0].losses[step] - alone[0].losses[step]) < 1e-5);
    CHECK(std::abs(workers[0].rows_sum - alone[0].rows_sum) < 1e-3);
  }
}

TEST_CASE("workers: the chief's set_weights go to all when fit begins") {
  const TemporaryFolder folder;
  std::vector<Worker> source = equal_workers(1, folder), workers = equal_workers(2, folder);
  train(source);
  workers[0].weights = source[0].weights;
  workers[1].weights = source[0].weights;
  for (float& value : workers[1].weights[0].values) value = 1e6F;
  train(workers);
  check_all_equal(workers);
  CHECK(workers[0].losses[0] < 10);
}

TEST_CASE("workers: another program is refused on all of them, with the difference") {
  const TemporaryFolder folder;
  const auto failures = [&](auto change) {
    std::vector<Worker> workers = equal_workers(3, folder);
    change(workers[2]);
    train(workers);
    for (const Worker& worker : workers) {
      CHECK(worker.failure == workers[0].failure);
      CHECK(worker.recorder.calls.empty());
    }
    return workers[0].failure;
  };
  CHECK(contains(failures([](Worker& w) { w.learning_rate = 0.25; }),
                 "compile: the workers differ: rank 2 has 'optimizer: SGD(learning_rate=0.25"));
  CHECK(contains(failures([](Worker& w) { w.options.epochs = 4; }),
                 "fit: the workers differ: rank 2 has 'epochs: 4', the chief has 'epochs: 3'"));
  CHECK(contains(failures([](Worker& w) { w.options.validation_data = w.data; }), "'validation: yes'"));
}

TEST_CASE("workers: any of them may ask to stop; all stop after the same step") {
  for (const std::size_t who : {0u, 1u}) {
    const TemporaryFolder folder;
    std::vector<Worker> workers = equal_workers(2, folder);
    workers[who].recorder.at_batch_end = [](ls::Training& training, std::int64_t batch, ls::Logs&) {
      if (training.iterations() == 7) training.stop_training();
      CHECK(batch < 5);
    };
    train(workers);
    check_all_equal(workers);
    CHECK(workers[0].losses.size() == 8);
    CHECK(workers[0].epochs == std::vector<int>{0, 1});
  }
}

TEST_CASE("workers: a stop at the end of an epoch is everybody's") {
  const TemporaryFolder folder;
  std::vector<Worker> workers = equal_workers(3, folder);
  workers[2].recorder.at_epoch_end = [](ls::Training& training, int, ls::Logs&) { training.stop_training(); };
  train(workers);
  check_all_equal(workers);
  CHECK(workers[0].epochs == std::vector<int>{0});
}

TEST_CASE("workers: an exception on one ends fit on all") {
  const TemporaryFolder folder;
  std::vector<Worker> workers = equal_workers(3, folder);
  workers[1].recorder.at_batch_begin = [](ls::Training& training, std::int64_t) {
    CHECK_FALSE(training.is_chief());
    CHECK(training.num_workers() == 3);
    CHECK(training.worker_index() == 1);
    if (training.iterations() == 3) throw std::runtime_error("disk full");
  };
  train(workers);
  CHECK(workers[1].failure == "disk full");
  CHECK(contains(workers[0].failure, "disk full"));
  CHECK(contains(workers[2].failure, "disk full"));
}

TEST_CASE("workers: a resumed run goes on from the chief's state alone, to the same bits") {
  for (const std::int64_t save_freq : {0, 2}) {
    const TemporaryFolder folder, other;
    std::vector<Worker> whole = equal_workers(2, other), cut = equal_workers(2, folder),
                        resumed = equal_workers(2, folder);
    for (auto* workers : {&whole, &cut, &resumed})
      for (Worker& worker : *workers) worker.save_freq = save_freq;
    train(whole);
    cut[0].recorder.at_batch_begin = [](ls::Training& training, std::int64_t) {
      if (training.iterations() == 9) throw std::runtime_error("power failure");
    };
    train(cut);
    CHECK(cut[0].failure == "power failure");
    CHECK(std::filesystem::exists(folder.path("0/training_state")));
    CHECK_FALSE(std::filesystem::exists(folder.path("1")));  // only the chief writes
    for (Worker& worker : resumed) worker.seed = 77;
    train(resumed);
    check_all_equal(resumed);
    CHECK(resumed[0].crc == whole[0].crc);
    CHECK(resumed[0].losses.back() == whole[0].losses.back());
    CHECK(resumed[0].losses.size() == (save_freq == 0 ? 10 : 7));
    CHECK_FALSE(std::filesystem::exists(folder.path("0/training_state")));
  }
}

TEST_CASE(
    "workers: files of different lengths; a resumed run finds the place of a worker that has more than the chief") {
  const TemporaryFolder folder, other;
  std::vector<Worker> whole = equal_workers(2, other), cut = equal_workers(2, folder),
                      resumed = equal_workers(2, folder);
  for (auto* workers : {&whole, &cut, &resumed})
    for (Worker& worker : *workers) {
      worker.data = TwoFiles();
      worker.save_freq = 1;
    }
  train(whole);
  check_all_equal(whole);
  CHECK(whole[0].losses.size() == 3 * 10);  // until nobody has data
  cut[0].recorder.at_batch_begin = [](ls::Training& training, std::int64_t) {
    if (training.iterations() == 17) throw std::runtime_error("power failure");
  };
  train(cut);
  train(resumed);
  check_all_equal(resumed);
  CHECK(resumed[0].losses.size() == 13);
  CHECK(resumed[0].crc == whole[0].crc);
}

TEST_CASE("workers: with AutoShardPolicy::off every worker sees all, and a whole pass is that many more steps") {
  const TemporaryFolder folder;
  for (const bool with_steps : {false, true}) {
    std::vector<Worker> workers = equal_workers(2, folder);
    for (Worker& worker : workers) {
      worker.data = batches(20, 5, {.auto_shard_policy = ls::AutoShardPolicy::off});
      if (with_steps) worker.options.steps_per_epoch = 8;
    }
    train(workers);
    check_all_equal(workers);
    CHECK(workers[0].losses.size() == 3 * 8);
    CHECK(workers[0].epochs == std::vector<int>{0, 1, 2});
  }
}

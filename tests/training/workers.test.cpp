// fit on several workers, each with a model of its own.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/data/files.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/saving/model_files.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// Counts how often an exception ended fit. What it throws itself becomes a warning.
struct Aborts {
  int count = 0;
  void on_train_abort(ls::Training&) {
    ++count;
    throw std::runtime_error("not to replace the first");
  }
};

/// What one worker's program does, and what came of it.
struct Worker {
  std::uint64_t seed = 1;
  double learning_rate = 0.2;
  ls::FitOptions options{.epochs = 3, .verbose = 0};
  ls::AnyDataset data;
  Recorder recorder;
  Aborts aborts;
  std::string backup_dir;
  std::int64_t save_freq = ls::SaveFrequency::epoch;
  std::vector<ls::Weight<float>> weights;  ///< set before fit
  bool evaluates = true;                   ///< and predicts, after fit

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
  const auto failures =
      run_workers(static_cast<int>(workers.size()), [&](WorkerStrategy& strategy) {
        Worker& worker = workers[static_cast<std::size_t>(strategy.worker_index())];
        auto model = ls::compile<TinyNet>(
            strategy, {.seed = worker.seed}, ls::SparseCategoricalCrossentropy{.from_logits = true},
            ls::SGD{.learning_rate = worker.learning_rate, .momentum = 0.5}, ls::Accuracy{});
        worker.seed_in_force = model.seed();
        if (!worker.weights.empty()) model.set_weights(worker.weights);
        ls::BackupAndRestore backup{
            .backup_dir = worker.backup_dir, .save_freq = worker.save_freq, .asynchronous = false};
        const ls::History history =
            model.fit(worker.data, worker.options, worker.recorder, worker.aborts, backup);
        for (const ls::Logs& logs : worker.recorder.batch_logs)
          worker.losses.push_back(logs.at("loss"));
        worker.epochs = history.epoch;
        worker.crc = model.parameters_crc32c();
        worker.weights = model.get_weights();
        if (!worker.evaluates) return;
        worker.val_loss = model.evaluate(worker.data, {.verbose = 0, .steps = 3}).at("loss");
        worker.rows_sum =
            static_cast<double>(model.predict(worker.data, {.steps = 3}).cwiseAbs().sum());
      });
  for (std::size_t i = 0; i < workers.size(); ++i) workers[i].failure = failures[i];
}

ls::AnyDataset batches(int samples, std::int64_t batch, ls::DatasetOptions options = {}) {
  const TinyData data(samples);
  return ls::AnyDataset(
      ls::from_tensor_slices(data.x, data.y).with_options(options).shuffle(samples).batch(batch));
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
    static_cast<RowDataset&>(*this) =
        index == 0 ? RowDataset(TinyData(4, 1), 2) : RowDataset(TinyData(20, 2), 2);
  }
};

}  // namespace

TEST_SUITE_BEGIN("Keras: MultiWorkerMirroredStrategy");

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
                 "compile: the workers differ: worker 2 has 'optimizer: SGD(learning_rate=0.25"));
  CHECK(contains(failures([](Worker& w) { w.options.epochs = 4; }),
                 "fit: the workers differ: worker 2 has 'epochs: 4', the chief has 'epochs: 3'"));
  CHECK(contains(failures([](Worker& w) { w.options.validation_data = w.data; }),
                 "'validation: yes'"));
}

TEST_CASE("workers: other data are refused on all of them before any step, with the difference") {
  const TemporaryFolder folder;
  const auto failure = [&](auto change) {
    std::vector<Worker> workers = equal_workers(3, folder);
    for (Worker& worker : workers) worker.options.validation_data = batches(8, 4);
    change(workers[1]);
    train(workers);
    for (const Worker& worker : workers) {
      CHECK(worker.failure == workers[0].failure);
      CHECK(worker.recorder.calls.empty());
    }
    return workers[0].failure;
  };
  CHECK(
      failure([](Worker& w) { w.data = batches(22, 10); }) ==
      "fit: the workers differ: worker 1 has 'training data, global batch size: 10', the chief has "
      "'training data, "
      "global batch size: 5': start the same program with the same options and data on every "
      "worker");
  CHECK(contains(failure([](Worker& w) { w.data = batches(21, 5); }),
                 "worker 1 has 'training data, samples in the source: 21', the chief has 'training "
                 "data, samples in the "
                 "source: 22'"));
  CHECK(contains(failure([](Worker& w) {
                   w.data = batches(22, 5, {.auto_shard_policy = ls::AutoShardPolicy::off});
                 }),
                 "worker 1 has 'training data, sharding: off', the chief has 'training data, "
                 "sharding: data'"));
  const TinyData data(22), others(22, 2);
  CHECK(contains(
      failure([&](Worker& w) {
        w.data = ls::from_tensor_slices(data.x, data.y).shuffle(22, 9).batch(5);
      }),
      "worker 1 has 'training data, pipeline: from_tensor_slices -> shuffle(22, seed 9) -> "
      "batch(5)', the "
      "chief has 'training data, pipeline: from_tensor_slices -> shuffle(22) -> batch(5)'"));
  CHECK(contains(failure([&](Worker& w) {
                   w.data = ls::from_tensor_slices(others.x, others.y).shuffle(22).batch(5);
                 }),
                 "worker 1 has 'training data, checksum of 16 samples: "));
  CHECK(contains(failure([](Worker& w) { w.options.validation_data = batches(9, 4); }),
                 "'validation data, samples in the source: 9'"));
}

TEST_CASE("workers: a user's own dataset is compared by its length, at least") {
  const TemporaryFolder folder;
  std::vector<Worker> workers = equal_workers(2, folder);
  workers[0].data = RowDataset(TinyData(20), 5);
  workers[1].data = RowDataset(TinyData(15), 5);
  train(workers);
  for (const Worker& worker : workers)
    CHECK(contains(worker.failure,
                   "worker 1 has 'training data, batches in a pass: 3', the chief has"));
}

TEST_CASE("workers: evaluate and predict compare their data, too") {
  for (const bool predicts : {false, true}) {
    const auto failures = run_workers(2, [&](WorkerStrategy& strategy) {
      auto model = ls::compile<TinyNet>(
          strategy, {.seed = 1}, ls::SparseCategoricalCrossentropy{.from_logits = true},
          ls::SGD{.learning_rate = 0.2, .momentum = 0.5}, ls::Accuracy{});
      const ls::AnyDataset data = batches(strategy.is_chief() ? 20 : 24, 4);
      if (predicts)
        (void)model.predict(data);
      else
        (void)model.evaluate(data, {.verbose = 0});
    });
    for (const std::string& failure : failures)
      CHECK(contains(failure,
                     std::string(predicts ? "predict" : "evaluate") +
                         ": the workers differ: worker 1 has 'data, samples in the source: 24'"));
  }
}

TEST_CASE(
    "workers: with AutoShardPolicy::file each opens its own files alone, and an epoch is the "
    "longest part" *
    doctest::test_suite("Keras: AutoShardPolicy")) {
  struct Result {
    std::vector<std::string> opened;
    std::size_t steps = 0;
    double last_loss = 0;
  };
  for (const std::optional<std::int64_t> steps_per_epoch :
       {std::optional<std::int64_t>(), std::optional<std::int64_t>(8)}) {
    std::vector<Result> results(2);
    const auto failures = run_workers(2, [&](WorkerStrategy& strategy) {
      Result& result = results[static_cast<std::size_t>(strategy.worker_index())];
      const std::string mine = strategy.is_chief() ? "chief" : "other";
      // The chief has 8 samples, the other 16: 4 and 8 batches of 2, a half of the global 4.
      const auto files = ls::from_files(
          {"chief-0", "other-0", "chief-1", "other-1"}, [&](const std::string& path) {
            result.opened.push_back(path);
            if (!path.starts_with(mine)) throw ls::DataError("this worker has no " + path);
            const TinyData part(path.starts_with("chief") ? 4 : 8);
            return std::pair(ls::Tensor<float>(part.x), ls::Tensor<int>(part.y));
          });
      auto model = ls::compile<TinyNet>(
          strategy, {.seed = 1}, ls::SparseCategoricalCrossentropy{.from_logits = true},
          ls::SGD{.learning_rate = 0.2, .momentum = 0.5}, ls::Accuracy{});
      Recorder recorder;
      const ls::AnyDataset dataset = files.shuffle(8).batch(4);
      const ls::History history = model.fit(dataset,
                                            {.epochs = 3,
                                             .verbose = 0,
                                             .validation_data = files.batch(4),
                                             .steps_per_epoch = steps_per_epoch},
                                            recorder);
      CHECK(history.epoch == std::vector<int>{0, 1, 2});
      result.steps = recorder.batch_logs.size();
      result.last_loss = model.evaluate(dataset, {.verbose = 0}).at("loss");
    });
    for (const std::string& failure : failures) CHECK(failure == "");
    CHECK(results[0].opened == std::vector<std::string>{"chief-0", "chief-1"});
    CHECK(results[1].opened == std::vector<std::string>{"other-0", "other-1"});
    for (const Result& result : results) {
      CHECK(result.steps == 3 * 8);
      CHECK(result.last_loss == results[0].last_loss);
    }
  }
}

TEST_CASE("workers: files of no worker have samples: an error on each, and no hang" *
          doctest::test_suite("Keras: AutoShardPolicy")) {
  const auto failures = run_workers(2, [](WorkerStrategy& strategy) {
    const auto files = ls::from_files({"a", "b"}, [](const std::string&) {
      return std::pair(ls::Tensor<float>({}, {0, 4}), ls::Tensor<int>(std::vector<int>{}));
    });
    auto model = ls::compile<TinyNet>(
        strategy, {.seed = 1}, ls::SparseCategoricalCrossentropy{.from_logits = true},
        ls::SGD{.learning_rate = 0.2, .momentum = 0.5}, ls::Accuracy{});
    model.fit(files.batch(4), {.verbose = 0});
  });
  for (const std::string& failure : failures)
    CHECK(contains(failure, "the training data is empty"));
}

TEST_CASE(
    "workers: with AutoShardPolicy::off each may have data of its own, in batches of one size" *
    doctest::test_suite("Keras: AutoShardPolicy")) {
  const TemporaryFolder folder;
  const ls::DatasetOptions off{.auto_shard_policy = ls::AutoShardPolicy::off};
  std::vector<Worker> workers = equal_workers(2, folder);
  workers[0].data = batches(20, 5, off);
  workers[1].data = ls::AnyDataset(ls::from_tensor_slices(TinyData(30, 2).x, TinyData(30, 2).y)
                                       .with_options(off)
                                       .shuffle(30, 4)
                                       .batch(5));
  workers[0].options.steps_per_epoch = workers[1].options.steps_per_epoch = 12;
  for (Worker& worker : workers) worker.evaluates = false;
  train(workers);
  check_all_equal(workers);
  CHECK(workers[0].losses.size() == 3 * 12);  // a whole pass of the longer one
  workers[1].data = batches(20, 4, off);
  train(workers);
  CHECK(contains(workers[0].failure, "worker 1 has 'training data, global batch size: 4'"));
}

TEST_CASE("workers: a bad label is named by its sample's number in the data set") {
  const TemporaryFolder folder;
  TinyData data(22);
  data.y[17] = 3;
  const std::string expected =
      "sparse_categorical_crossentropy: the label of sample 17 is 3; expected a whole number from "
      "0 to 2";
  for (const bool prefetches : {false, true}) {
    std::vector<Worker> workers = equal_workers(2, folder);
    const auto samples = ls::from_tensor_slices(data.x, data.y).shuffle(22).batch(5);
    for (Worker& worker : workers)
      worker.data = prefetches ? ls::AnyDataset(samples.prefetch()) : ls::AnyDataset(samples);
    train(workers);
    for (const Worker& worker : workers) CHECK(contains(worker.failure, expected));
    for (Worker& worker : workers) {
      worker.data = batches(22, 5);
      worker.options.validation_data = ls::from_tensor_slices(data.x, data.y).batch(3);
    }
    train(workers);
    for (const Worker& worker : workers) CHECK(contains(worker.failure, expected));
  }
}

TEST_CASE("workers: calls that only some of them make are named") {
  using Model = decltype(ls::compile<TinyNet>(
      std::declval<WorkerStrategy&>(), {.seed = 1},
      ls::SparseCategoricalCrossentropy{.from_logits = true}, ls::SGD{}));
  struct Call {
    const char* name;
    std::function<void(Model&)> make;
  };
  const Call fit{"fit", [](Model& model) { model.fit(batches(22, 5), {.verbose = 0}); }};
  const Call evaluate{"evaluate",
                      [](Model& model) { model.evaluate(batches(22, 5), {.verbose = 0}); }};
  const Call predict{"predict", [](Model& model) { (void)model.predict(batches(22, 5)); }};
  const Call load{"load('model')", [](Model& model) { model.load("model"); }};
  const Call load_weights{"load_weights('w.npz')",
                          [](Model& model) { model.load_weights("w.npz"); }};
  for (const auto& [chiefs, others] : {std::pair(&evaluate, &predict),
                                       {&fit, &evaluate},
                                       {&fit, &load},
                                       {&load, &fit},
                                       {&load_weights, &fit}}) {
    const Call &here = *chiefs, &there = *others;
    CAPTURE(here.name);
    CAPTURE(there.name);
    const auto failures = run_workers(2, [&](WorkerStrategy& strategy) {
      auto model = ls::compile<TinyNet>(
          strategy, {.seed = 1}, ls::SparseCategoricalCrossentropy{.from_logits = true}, ls::SGD{});
      (strategy.is_chief() ? here : there).make(model);
    });
    for (const std::string& failure : failures)
      CHECK(contains(failure, std::string("the workers are not in the same call: worker 0 is in ") +
                                  here.name + ", worker 1 in " + there.name +
                                  ": every worker must make the same calls"));
  }
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
    CHECK(workers[0].losses.size() == 7);
    CHECK(workers[0].epochs == std::vector<int>{0, 1});
  }
}

TEST_CASE(
    "workers: a preemption that a batch hook of one asks for is made by all after that very batch" *
    doctest::test_suite("Keras: MultiWorkerMirroredStrategy: preemption")) {
  const TemporaryFolder folder;
  std::vector<Worker> workers = equal_workers(2, folder);
  workers[1].recorder.at_batch_end = [](ls::Training& training, std::int64_t, ls::Logs&) {
    if (training.iterations() == 7) training.request_preemption(ls::ExitCode::terminated);
  };
  train(workers);
  for (const Worker& worker : workers) {
    CHECK(contains(worker.failure, "fit: stopped by SIGTERM at epoch 2, step 2"));
    CHECK(worker.recorder.count("batch_end") == 7);
  }
}

TEST_CASE("workers: a stop at the end of an epoch is everybody's") {
  const TemporaryFolder folder;
  std::vector<Worker> workers = equal_workers(3, folder);
  workers[2].recorder.at_epoch_end = [](ls::Training& training, int, ls::Logs&) {
    training.stop_training();
  };
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
  CHECK(workers[1].failure == "fit, epoch 1, step 4, on_train_batch_begin of Recorder: disk full");
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
    CHECK(contains(cut[0].failure, "power failure"));
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
    "workers: files of different lengths; a resumed run finds the place of a worker that has more "
    "than the chief") {
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
  CHECK(whole[0].losses.size() == 3 * 10);  // until no worker has data
  cut[0].recorder.at_batch_begin = [](ls::Training& training, std::int64_t) {
    if (training.iterations() == 17) throw std::runtime_error("power failure");
  };
  train(cut);
  train(resumed);
  check_all_equal(resumed);
  CHECK(resumed[0].losses.size() == 13);
  CHECK(resumed[0].crc == whole[0].crc);
}

TEST_CASE(
    "workers: with AutoShardPolicy::off every worker sees all, and a whole pass is that many more "
    "steps" *
    doctest::test_suite("Keras: AutoShardPolicy")) {
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

namespace {

/// What cosmic rays do, on one worker, after its seventh update (in epoch 2 of 5 steps each).
void flip_a_bit(Worker& worker) {
  worker.recorder.at_batch_end = [](ls::Training& training, std::int64_t, ls::Logs&) {
    if (training.iterations() != 7) return;
    auto parameters = training.parameters();
    parameters[5] ^= std::byte{1};
    training.set_parameters(parameters);
  };
}

ls::TrainingState saved_state(const TemporaryFolder& folder) {
  return ls::decode_checkpoint(*ls::read_file(folder.path("0/training_state")));
}

}  // namespace

TEST_CASE(
    "workers: a bit that changes on one of them is found by all at the end of the epoch, and is "
    "not saved") {
  for (const int count : {2, 3}) {
    CAPTURE(count);
    const TemporaryFolder folder;
    std::vector<Worker> workers = equal_workers(count, folder);
    flip_a_bit(workers.back());
    train(workers);
    for (const Worker& worker : workers) {
      CHECK(contains(worker.failure, "fit: after 10 updates the replicas have become different: "));
      CHECK(contains(worker.failure,
                     count == 2
                         ? "worker 0 and worker 1 differ, and there is no majority, in: parameters"
                         : "worker 2 differs from the 2 others, which are equal, in: parameters"));
      CHECK(contains(worker.failure, "start all workers again"));
      CHECK(worker.aborts.count == 1);
    }
    CHECK(saved_state(folder).iterations == 5);  // the end of the first epoch
  }
}

TEST_CASE("workers: replicas are compared before each save between epochs, too") {
  for (const std::int64_t save_freq : {1, 3}) {
    CAPTURE(save_freq);
    const TemporaryFolder folder;
    std::vector<Worker> workers = equal_workers(3, folder);
    for (Worker& worker : workers) worker.save_freq = save_freq;
    flip_a_bit(workers[1]);
    train(workers);
    for (const Worker& worker : workers)
      CHECK(contains(worker.failure, save_freq == 1 ? "after 7 updates the replicas"
                                                    : "after 9 updates the replicas"));
    CHECK(saved_state(folder).iterations == 6);
  }
}

TEST_CASE(
    "workers: a callback that changes the learning rate of one of them is found before the save") {
  const TemporaryFolder folder;
  std::vector<Worker> workers = equal_workers(2, folder);
  workers[0].recorder.at_epoch_end = [](ls::Training& training, int, ls::Logs&) {
    training.set_learning_rate(0.1);
  };
  train(workers);
  for (const Worker& worker : workers)
    CHECK(contains(worker.failure, "in: the learning rate or the number of updates"));
  CHECK_FALSE(std::filesystem::exists(folder.path("0/training_state")));
}

TEST_CASE("workers: without the comparison what differs goes on, and all must want it or none") {
  const TemporaryFolder folder;
  std::vector<Worker> workers = equal_workers(2, folder);
  for (Worker& worker : workers) worker.options.verify_replicas = false;
  flip_a_bit(workers[1]);
  train(workers);
  for (const Worker& worker : workers) {
    CHECK(worker.failure.empty());
    CHECK(worker.aborts.count == 0);
  }
  CHECK(workers[0].crc != workers[1].crc);

  std::vector<Worker> different = equal_workers(2, folder);
  different[1].options.verify_replicas = false;
  train(different);
  CHECK(contains(different[0].failure,
                 "worker 1 has 'verify_replicas: no', the chief has 'verify_replicas: yes'"));
}

namespace {

struct StopAfterThird {
  void on_train_batch_end(ls::Training& training, std::int64_t, ls::Logs&) {
    if (training.iterations() == 3) training.stop_training();
  }
  void on_epoch_end(ls::Training&, int, ls::Logs&) {}
};

}  // namespace

TEST_CASE(
    "workers: what the callbacks of one need, the others take part in without such callbacks") {
  for (const int with_callback : {0, 1}) {
    CAPTURE(with_callback);
    const auto failures = run_workers(2, [&](WorkerStrategy& strategy) {
      auto model = ls::compile<TinyNet>(
          strategy, {.seed = 1}, ls::SparseCategoricalCrossentropy{.from_logits = true},
          ls::SGD{.learning_rate = 0.2, .momentum = 0.5}, ls::Accuracy{});
      if (strategy.worker_index() == with_callback)
        model.fit(batches(22, 5), {.epochs = 2, .verbose = 0}, StopAfterThird{});
      else
        model.fit(batches(22, 5), {.epochs = 2, .verbose = 0});
      CHECK(model.iterations() == 3);
    });
    for (const std::string& failure : failures) CHECK(failure == "");
  }
}

TEST_SUITE_END();

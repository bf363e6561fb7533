// What users of Keras expect of fit, evaluate, predict and callbacks: a test for each behaviour,
// which bears its name and runs on one thread, on two, and on two workers over TCP.
//
// All that users of Keras and TensorFlow expect, by suite; the tests stand with the others of their
// part (a name below is that of a file in tests/, without .test.cpp):
//
//   Keras: MultiWorkerMirroredStrategy      training/keras_workers, training/workers
//     ... : start-up                        collectives/tcp/tcp
//     ... : health                          collectives/tcp/tcp, integration/survival
//     ... : CommunicationOptions            collectives/options
//     ... : preemption                      training/fit_requests, training/workers,
//                                           integration/survival
//   Keras: AutoShardPolicy                  data/sharding, data/distributed_dataset,
//                                           training/keras_workers, training/workers
//   Keras: dataset pipeline: STAGE          data/order, data/batch, data/map; prefetch in
//                                           data/batch_loader, filter in data/stages, from_... in
//                                           data/tensor_slices and data/generator; zip, concatenate
//                                           and interleave in data/joined_stages
//   Keras: fit and evaluate and predict     this file, training/history, training/sample_weights,
//                                           callbacks/progress_bar
//   Keras: callbacks                        this file, callbacks/CALLBACK
//   Keras: checkpoints                      checkpoint/checkpoint_folder, saving/checkpoint
//   Keras: TensorBoard event file           extra/records/tfrecord_file,
//                                           extra/tensorboard/tensorboard, core/crc
//   Keras: numerics                         training/keras_numerics, layers/dropout
//
// `test_data --test-suite='Keras: *' --list-test-cases` lists those of one program.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/callbacks/lambda_callback.hpp"
#include "lockstep/callbacks/model_checkpoint.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using TcpStrategy = ls::MultiWorkerMirroredStrategy<ls::Ring<ls::Tcp>>;
using Calls = std::vector<std::string>;

/// 22 rows in 5 batches of 5, the last of 2.
RowDataset rows(std::int64_t cardinality = 5) {
  RowDataset data(TinyData(22), 5);
  data.reported_cardinality = cardinality;
  return data;
}
const std::int64_t endless = ls::infinite_cardinality, unknown = ls::unknown_cardinality;

/// The rows [first, last) of rows(), in one batch.
ls::AnyDataset some_rows(int first, int last) {
  const TinyData data(22);
  return ls::AnyDataset(
      ls::from_tensor_slices(data.x, data.y).skip(first).take(last - first).batch(22));
}

/// The program of one worker.
struct Here {
  TcpStrategy& strategy;
  double learning_rate;

  Recorder recorder = {};
  ls::BackupAndRestore backup = {};
  ls::LambdaCallback lambda = {};  ///< comes after the recorder
  std::string name =
      std::to_string(strategy.num_replicas_in_sync()) + std::to_string(strategy.num_workers());

  ls::Model<TinyNet, float, TcpStrategy, ls::SparseCategoricalCrossentropy, ls::SGD, ls::Accuracy>
      model{strategy,
            {.seed = 3},
            {.from_logits = true},
            {.learning_rate = learning_rate, .momentum = 0.5},
            {}};

  ls::History fit(const ls::AnyDataset& data, ls::FitOptions options = {}) {
    options.verbose = 0;
    return model.fit(data, options, recorder, lambda);
  }
  ls::History fit_with_backup(const ls::AnyDataset& data, ls::FitOptions options = {}) {
    options.verbose = 0;
    return model.fit(data, options, recorder, backup);
  }
  /// Mean loss over the rows [first, last).
  double loss_of(int first, int last) {
    return model.evaluate(some_rows(first, last), {.verbose = 0}).at("loss");
  }
  /// As if nothing had been recorded.
  Calls take_calls() {
    recorder.epoch_logs.clear();
    recorder.batch_logs.clear();
    return std::exchange(recorder.calls, {});
  }
  [[nodiscard]] int epochs() const { return static_cast<int>(recorder.count("epoch_end")); }
  [[nodiscard]] int batches() const { return static_cast<int>(recorder.count("batch_end")); }
};

/// Runs f as each worker: alone, with two replicas, and as two workers. A learning rate of 0 keeps
/// the model, so that losses tell which samples were seen.
void everywhere(double learning_rate, const std::function<void(Here&)>& f) {
  for (const int workers : {1, 2})
    for (const int replicas : {1, 2}) {
      if (workers * replicas > 2) continue;
      const Calls addresses = workers > 1 ? lockstep_test::free_addresses(workers) : Calls{};
      const auto thrown = lockstep_test::run_threads(workers, [&](int rank) {
        ls::Cluster cluster;
        cluster.spec.worker = addresses;
        cluster.task.index = rank;
        TcpStrategy strategy(cluster, {.replicas = replicas,
                                       .communication_options = lockstep_test::patient_options()});
        Here here{strategy, learning_rate};
        f(here);
      });
      for (const std::exception_ptr& exception : thrown)
        CHECK(lockstep_test::message_of(exception) == "");
    }
}

doctest::Approx near(double value) { return doctest::Approx(value).epsilon(1e-5); }

}  // namespace

TEST_SUITE_BEGIN("Keras: fit and evaluate and predict");

TEST_CASE(
    "fit: train_begin, epoch_begin, batches, validation, epoch_end, train_end, in this "
    "order") {
  everywhere(0.1, [](Here& here) {
    here.fit(RowDataset(TinyData(10), 5),
             {.epochs = 2, .validation_data = RowDataset(TinyData(4), 5)});
    Calls expected{"train_begin"};
    for (const std::string epoch : {"0", "1"})
      for (const char* call :
           {"epoch_begin ", "batch_begin 0", "batch_end 0", "batch_begin 1", "batch_end 1",
            "test_begin", "test_batch_begin 0", "test_batch_end 0", "test_end", "epoch_end "})
        expected.push_back(std::string(call).ends_with(' ') ? call + epoch : call);
    expected.emplace_back("train_end");
    CHECK(here.recorder.calls == expected);
    CHECK(here.recorder.epoch_logs[1].contains("val_accuracy"));
  });
}

TEST_CASE(
    "fit: metrics are reset at each epoch; batch logs are running averages, the same on all "
    "workers") {
  everywhere(0, [](Here& here) {
    here.fit(rows(), {.epochs = 2});
    for (const std::size_t epoch : {0u, 1u}) {
      CHECK(here.recorder.batch_logs[5 * epoch].at("loss") == near(here.loss_of(0, 5)));
      CHECK(here.recorder.batch_logs[5 * epoch + 2].at("loss") == near(here.loss_of(0, 15)));
      CHECK(here.recorder.epoch_logs[epoch].at("loss") == near(here.loss_of(0, 22)));
    }
  });
}

TEST_CASE(
    "fit: callbacks see and may change the logs; later callbacks and History see the "
    "change") {
  everywhere(0.1, [](Here& here) {
    double seen = 0;
    here.recorder.at_epoch_end = [](ls::Training&, int epoch, ls::Logs& logs) {
      logs.set("loss", 100 + epoch);
    };
    here.lambda.on_epoch_end = [&](int, ls::Logs& logs) { seen = logs.at("loss"); };
    CHECK(here.fit(rows(), {.epochs = 2})["loss"] == std::vector<double>{100, 101});
    CHECK(seen == 101);
  });
}

TEST_CASE(
    "fit: stop_training in a batch ends the batch loop; validation and epoch_end still "
    "run") {
  everywhere(0.1, [](Here& here) {
    // In the last worker alone, so that the others must hear of it after that very batch.
    if (here.strategy.worker_index() + 1 == here.strategy.num_workers())
      here.lambda.on_train_batch_end = [&](ls::Training& training, std::int64_t batch, ls::Logs&) {
        if (training.iterations() > 5 && batch == 1) training.stop_training();
      };
    const ls::History history = here.fit(rows(), {.epochs = 4, .validation_data = rows()});
    CHECK(here.model.iterations() == 7);
    CHECK(here.batches() == 7);
    CHECK(history.epoch == std::vector<int>{0, 1});
    CHECK(history["val_loss"].size() == 2);
    CHECK(here.recorder.calls.back() == "train_end");
  });
}

TEST_CASE("fit: epochs is the final index, initial_epoch the first") {
  everywhere(0.1, [](Here& here) {
    CHECK(here.fit(rows(), {.epochs = 5, .initial_epoch = 3}).epoch == std::vector<int>{3, 4});
    CHECK(here.recorder.count("epoch_begin 3") == 1);
    here.take_calls();
    CHECK(here.fit(rows(), {.epochs = 3, .initial_epoch = 3}).epoch.empty());
    CHECK(here.recorder.calls == Calls{"train_begin", "train_end without logs"});
  });
}

TEST_CASE("fit: a known size is that many steps, an unknown one is learned in epoch one") {
  everywhere(0, [](Here& here) {
    for (const std::int64_t cardinality : {std::int64_t{5}, unknown}) {
      const ls::History history = here.fit(rows(cardinality), {.epochs = 3});
      CHECK(here.batches() == 15);
      for (const double loss : history["loss"]) CHECK(loss == near(here.loss_of(0, 22)));
      here.take_calls();
    }
  });
}

TEST_CASE("fit: with an explicit steps_per_epoch the same iterator goes on across epochs") {
  everywhere(0, [](Here& here) {
    for (const std::int64_t cardinality : {endless, std::int64_t{5}, unknown}) {
      const ls::History history = here.fit(rows(cardinality), {.epochs = 2, .steps_per_epoch = 2});
      CHECK(history["loss"][0] == near(here.loss_of(0, 10)));
      CHECK(history["loss"][1] == near(here.loss_of(10, 20)));
      here.take_calls();
    }
  });
}

TEST_CASE("fit: data that end early are a warning with the batches needed, and the last epoch") {
  const CapturedStderr output;
  everywhere(0, [](Here& here) {
    const ls::History history = here.fit(rows(), {.epochs = 4, .steps_per_epoch = 3});
    CHECK(here.epochs() == 2);
    CHECK(history["loss"][1] == near(here.loss_of(15, 22)));  // the logs so far
    CHECK(here.recorder.calls.back() == "train_end");
  });
  std::size_t said = 0;
  const std::string text = output.text();
  for (auto at = text.find("warning"); at != std::string::npos; at = text.find("warning", at + 1))
    ++said;
  CHECK(said == 3);  // the chief's alone
  CHECK(contains(text, "after epoch 2: 4 epochs of 3 steps need more batches; use repeat()"));
}

TEST_CASE("fit: wrong options are errors before any work, on every worker") {
  everywhere(0.1, [](Here& here) {
    const std::uint32_t before = here.model.parameters_crc32c();
    const auto refuses = [&](const ls::AnyDataset& data, const ls::FitOptions& options,
                             const char* why) {
      const std::string message = message_of<ls::Error>([&] { here.fit(data, options); });
      CHECK_MESSAGE(contains(message, why), message);
    };
    refuses(rows(), {.steps_per_epoch = 0}, "steps_per_epoch must be at least 1");
    refuses(rows(), {.epochs = 0}, "epochs must be at least 1");
    refuses(rows(), {.initial_epoch = -1}, "initial_epoch must be at least 0");
    refuses(rows(endless), {}, "the data repeat forever: give .steps_per_epoch");
    refuses(rows(), {.validation_data = rows(endless)},
            "the data repeat forever: give .validation_steps");
    refuses(RowDataset(TinyData(0), 5), {}, "the training data is empty");
    const TinyData arrays(10);
    CHECK(contains(message_of<ls::ConfigurationError>(
                       [&] { here.model.fit(arrays.x, arrays.y, {.batch_size = 0}); }),
                   "batch_size must be at least 1"));
    CHECK(contains(message_of<ls::ConfigurationError>([] { ls::ValidationFrequency frequency(0); }),
                   "validation_freq must be at least 1"));
    CHECK(here.recorder.calls.empty());
    CHECK(here.model.parameters_crc32c() == before);
  });
}

TEST_CASE("fit: validation_freq is a number, or a list of epochs from 1") {
  everywhere(0.1, [](Here& here) {
    const auto validated = [&](const ls::ValidationFrequency& frequency) {
      here.take_calls();
      here.fit(rows(), {.epochs = 5, .validation_data = rows(), .validation_freq = frequency});
      std::vector<int> epochs;
      for (int epoch = 0; epoch < 5; ++epoch)
        if (here.recorder.epoch_logs[static_cast<std::size_t>(epoch)].contains("val_loss"))
          epochs.push_back(epoch);
      return epochs;
    };
    CHECK(validated(2) == std::vector<int>{1, 3});
    CHECK(validated(std::vector{1, 5}) == std::vector<int>{0, 4});
  });
}

TEST_CASE("fit: validation_steps restarts the data") {
  everywhere(0, [](Here& here) {
    for (const std::int64_t cardinality : {endless, std::int64_t{5}, unknown}) {
      const ls::History history = here.fit(
          rows(), {.epochs = 2, .validation_data = rows(cardinality), .validation_steps = 2});
      for (const double loss : history["val_loss"]) CHECK(loss == near(here.loss_of(0, 10)));
    }
  });
}

TEST_CASE("fit: validation_split takes the last part, before shuffling") {
  everywhere(0, [](Here& here) {
    const TinyData data(22);
    const ls::History history = here.model.fit(
        data.x, data.y, {.batch_size = 5, .epochs = 2, .verbose = 0, .validation_split = 0.25});
    for (const std::size_t epoch : {0u, 1u}) {
      CHECK(history["loss"][epoch] == near(here.loss_of(0, 16)));
      CHECK(history["val_loss"][epoch] == near(here.loss_of(16, 22)));
    }
    ls::FitOptions options{
        .batch_size = 5, .verbose = 0, .validation_split = 0.5, .validation_batch_size = 2};
    here.model.fit(data.x, data.y, options, here.recorder);
    CHECK(here.batches() == 3);
    CHECK(here.recorder.count("test_batch_end") == 6);
    options.validation_data = rows();
    const auto fits = [&] { here.model.fit(data.x, data.y, options); };
    CHECK(
        contains(message_of<ls::ConfigurationError>(fits), "validation_data has its own batches"));
  });
}

TEST_CASE(
    "evaluate: returns the logs by name, loss first; steps, and a warning where the data "
    "run out") {
  const CapturedStderr output;
  everywhere(0.1, [](Here& here) {
    const ls::Logs logs = here.model.evaluate(rows(), {.verbose = 0}, here.recorder);
    Calls names;
    for (const auto& [name, value] : logs) names.push_back(name);
    CHECK(names == Calls{"loss", "accuracy"});
    CHECK(logs.at("loss") == near(here.loss_of(0, 22)));
    CHECK(here.recorder.calls.front() == "test_begin");
    CHECK(here.recorder.calls.back() == "test_end");
    CHECK(here.model.evaluate(rows(endless), {.verbose = 0, .steps = 2}).at("loss") ==
          near(here.loss_of(0, 10)));
    CHECK(here.model.evaluate(rows(unknown), {.verbose = 0, .steps = 9}).at("loss") ==
          near(here.loss_of(0, 22)));
    CHECK(contains(message_of<ls::ConfigurationError>([&] { here.model.evaluate(rows(endless)); }),
                   "give .steps"));
  });
  CHECK(contains(output.text(), "evaluate: the data ran out after 5 of 9 batches"));
}

TEST_CASE("predict: returns all rows in dataset order, also under several workers") {
  everywhere(0.1, [](Here& here) {
    const auto all = here.model.predict(some_rows(0, 22));
    REQUIRE(all.rows() == 22);
    CHECK(here.model.predict(rows(), {}, here.recorder).isApprox(all, 1e-6F));
    CHECK(here.recorder.calls.front() == "predict_begin");
    CHECK(here.recorder.count("predict_batch_begin") == 5);
    CHECK(here.recorder.calls[10] == "predict_batch_end 4");
    CHECK(here.recorder.calls.back() == "predict_end");
    CHECK(here.model.predict(TinyData(22).x, {.batch_size = 3}).isApprox(all, 1e-6F));
    CHECK(here.model.predict(rows(unknown)).isApprox(all, 1e-6F));
    CHECK(here.model.predict(rows(endless), {.steps = 2}).isApprox(all.topRows(10), 1e-6F));
  });
}

TEST_CASE("History: one value per epoch for each key") {
  everywhere(0.1, [](Here& here) {
    const ls::History history = here.fit(rows(), {.epochs = 3, .validation_data = rows()});
    Calls keys;
    for (const auto& [key, values] : history) {
      keys.push_back(key);
      CHECK(values.size() == 3);
    }
    CHECK(keys == Calls{"loss", "accuracy", "val_loss", "val_accuracy"});
  });
}

TEST_SUITE_END();

TEST_SUITE_BEGIN("Keras: callbacks");

TEST_CASE("callbacks: predict, evaluate and a model's weights may be used inside") {
  everywhere(0.1, [](Here& here) {
    const auto undisturbed = [&] {
      Here other{here.strategy, here.learning_rate};
      other.fit(rows(), {.epochs = 2});
      return other.model.parameters_crc32c();
    }();
    here.recorder.at_epoch_end = [&](ls::Training&, int, ls::Logs& logs) {
      CHECK(here.model.predict(rows()).rows() == 22);
      logs.set("other_loss", here.model.evaluate(some_rows(0, 7), {.verbose = 0}).at("loss"));
      here.model.set_weights(here.model.get_weights());
    };
    CHECK(here.fit(rows(), {.epochs = 2})["other_loss"].size() == 2);
    CHECK(here.model.parameters_crc32c() == undisturbed);
  });
}

TEST_CASE(
    "callbacks: the learning rate can be read and set, and is in the logs where it is not "
    "compile's") {
  everywhere(0.5, [](Here& here) {
    CHECK_FALSE(here.fit(rows()).contains("learning_rate"));
    here.recorder.at_epoch_begin = [](ls::Training& training, int epoch) {
      if (epoch == 1) training.set_learning_rate(training.learning_rate() / 4);
    };
    CHECK(here.fit(rows(), {.epochs = 3})["learning_rate"] == std::vector<double>{0.125, 0.125});
    CHECK(here.model.learning_rate() == 0.125);
    here.model.set_learning_rate(0.25);
    CHECK(here.fit(rows())["learning_rate"] == std::vector<double>{0.25});
  });
}

TEST_CASE(
    "BackupAndRestore: goes on after the last epoch or step, overrides initial_epoch, is "
    "deleted at the end") {
  const TemporaryFolder folder;
  for (const std::int64_t save_freq : {0, 2}) {
    const auto begin = [&](Here& here) {
      const std::string worker = std::to_string(here.strategy.worker_index());
      here.backup = {.backup_dir = folder.path(here.name + std::to_string(save_freq) + worker),
                     .save_freq = save_freq,
                     .asynchronous = false};
    };
    everywhere(0.1, [&](Here& here) {
      begin(here);
      here.recorder.at_batch_begin = [](ls::Training& training, std::int64_t) {
        if (training.iterations() == 8) throw std::runtime_error("power failure");
      };
      CHECK(contains(message_of<ls::Error>([&] { here.fit_with_backup(rows(), {.epochs = 3}); }),
                     "power failure"));
      CHECK(std::filesystem::exists(here.backup.path()) == here.strategy.is_chief());  // kept
    });
    everywhere(0.1, [&](Here& here) {
      begin(here);
      const ls::History history = here.fit_with_backup(rows(), {.epochs = 3, .initial_epoch = 2});
      CHECK(history.epoch == std::vector<int>{1, 2});
      // (e + 1, 0), (e, b + 1)
      CHECK(here.recorder.calls[2] == (save_freq == 0 ? "batch_begin 0" : "batch_begin 3"));
      CHECK(here.model.iterations() == 15);
      CHECK_FALSE(std::filesystem::exists(here.backup.path()));
      here.recorder.at_epoch_end = [](ls::Training& training, int, ls::Logs&) {
        training.stop_training();
      };
      here.fit_with_backup(rows(), {.epochs = 3});
      CHECK_FALSE(std::filesystem::exists(here.backup.path()));  // early stop included
    });
  }
}

TEST_CASE(
    "ModelCheckpoint: every n steps counted across epochs, the best only; a missing key "
    "names those there are") {
  const TemporaryFolder folder;
  everywhere(0.1, [&](Here& here) {
    const std::string path = folder.path(here.name);
    ls::ModelCheckpoint steps({.filepath = path + "/steps/{epoch:02d}-{batch}", .save_freq = 4}),
        best({.filepath = path + "/best/{epoch:02d}",
              .monitor = "mine_auc",
              .save_best_only = true}),
        wrong({.filepath = path + "/{val_loss:.2f}"});
    here.recorder.at_epoch_end = [](ls::Training&, int epoch, ls::Logs& logs) {
      logs.set("mine_auc", epoch % 2);
    };
    here.model.fit(rows(), {.epochs = 3, .verbose = 0}, here.recorder, steps, best);
    const std::string message = message_of<ls::ConfigurationError>(
        [&] { here.model.fit(rows(), {.verbose = 0}, here.recorder, wrong); });
    CHECK_MESSAGE((contains(message, "val_loss") && contains(message, "loss, accuracy")), message);
    if (!here.strategy.is_chief()) return;
    const auto has = [&](const std::string& file) { return std::filesystem::exists(path + file); };
    CHECK(has("/steps/01-4"));  // parent folders are made
    CHECK(has("/steps/02-3"));
    CHECK(has("/steps/03-2"));
    CHECK(has("/best/01"));
    CHECK(has("/best/02"));  // more of an AUC is better
    CHECK_FALSE(has("/best/03"));
  });
}

TEST_SUITE_END();

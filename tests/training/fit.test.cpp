#include "lockstep/training/fit.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/callbacks/early_stopping.hpp"
#include "lockstep/data/filter.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/optimizers/schedules.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/row_losses.hpp"
#include "support/tiny_trainer.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_CASE("fit: the order of hooks is Keras's") {
  TinyTrainer trainer;
  Recorder recorder;
  recorder.record_completions = true;
  trainer.fit(RowDataset(TinyData(10), 5),
              {.epochs = 2, .validation_data = RowDataset(TinyData(6, 2), 5)}, &recorder);
  std::vector<std::string> expected{"train_begin"};
  for (const std::string epoch : {"0", "1"})
    for (const char* call :
         {"epoch_begin ", "batch_begin 0", "batch_end 0", "batch_complete 0", "batch_begin 1",
          "batch_end 1", "batch_complete 1", "test_begin", "test_batch_begin 0", "test_batch_end 0",
          "test_batch_begin 1", "test_batch_end 1", "test_end", "epoch_end ", "epoch_complete "}) {
      const std::string text(call);
      expected.push_back(text.ends_with(' ') ? text + epoch : text);
    }
  expected.emplace_back("train_end");
  CHECK(recorder.calls == expected);
}

TEST_CASE(
    "fit: batch logs are running averages over the samples of the epoch, and the epoch's are those "
    "of all") {
  TinyTrainer trainer(frozen);
  Recorder recorder;
  const ls::History history = trainer.fit(rows(), {.epochs = 2}, &recorder);
  REQUIRE(recorder.batch_logs.size() == 10);
  for (std::size_t batch = 0; batch < 5; ++batch) {
    const ls::Logs expected =
        trainer.evaluate(some_rows(0, batch == 4 ? 22 : 5 * static_cast<int>(batch + 1)));
    for (const char* key : {"loss", "accuracy"}) {
      CHECK(recorder.batch_logs[batch].at(key) == doctest::Approx(expected.at(key)).epsilon(1e-6));
      CHECK(recorder.batch_logs[batch + 5].at(key) == recorder.batch_logs[batch].at(key));
    }
  }
  CHECK(history["loss"][1] == recorder.batch_logs[9].at("loss"));
  CHECK(history["accuracy"][0] == recorder.batch_logs[4].at("accuracy"));
}

TEST_CASE("fit: History has the epoch's logs with the changes that callbacks made") {
  TinyTrainer trainer;
  Recorder recorder;
  recorder.at_epoch_end = [](ls::Training&, int epoch, ls::Logs& logs) {
    logs.set("loss", 100 + epoch);
    logs.set("mine", epoch);
  };
  const ls::History history =
      trainer.fit(rows(), {.epochs = 3, .validation_data = rows()}, &recorder);
  CHECK(history.epoch == std::vector<int>{0, 1, 2});
  CHECK(history["loss"] == std::vector<double>{100, 101, 102});
  CHECK(history["mine"] == std::vector<double>{0, 1, 2});
  std::vector<std::string> keys;
  for (const auto& [key, values] : history) {
    keys.push_back(key);
    CHECK(values.size() == 3);
  }
  CHECK(keys == std::vector<std::string>{"loss", "accuracy", "val_loss", "val_accuracy", "mine"});
}

TEST_CASE("fit: what a callback did to the batch logs is not in the epoch's") {
  TinyTrainer trainer(frozen);
  Recorder recorder;
  recorder.at_batch_end = [](ls::Training&, std::int64_t, ls::Logs& logs) { logs.set("loss", -1); };
  const ls::History history = trainer.fit(rows(), {}, &recorder);
  CHECK(history["loss"][0] == doctest::Approx(loss_of(trainer, 0, 22)).epsilon(1e-6));
}

TEST_CASE("fit: a stop is forgotten by the next fit") {
  TinyTrainer trainer;
  Recorder recorder;
  recorder.at_epoch_end = [](ls::Training& training, int, ls::Logs&) { training.stop_training(); };
  trainer.fit(rows(), {.epochs = 3}, &recorder);
  Recorder again;
  trainer.fit(rows(), {.epochs = 3}, &again);
  CHECK(recorder.count("epoch_end") == 1);
  CHECK(again.count("epoch_end") == 3);
  CHECK(trainer.iterations() == 20);
}

TEST_CASE("fit: epochs is the index after the last one, initial_epoch that of the first") {
  TinyTrainer trainer;
  Recorder recorder;
  CHECK(trainer.fit(rows(), {.epochs = 5, .initial_epoch = 3}, &recorder).epoch ==
        std::vector<int>{3, 4});
  CHECK(recorder.count("epoch_begin 3") == 1);
  CHECK(recorder.count("epoch_begin") == 2);
  Recorder nothing;
  CHECK(trainer.fit(rows(), {.epochs = 3, .initial_epoch = 3}, &nothing).epoch.empty());
  CHECK(nothing.calls == std::vector<std::string>{"train_begin", "train_end without logs"});
}

TEST_CASE("fit: data of unknown length that are empty are an error") {
  TinyTrainer trainer;
  RowDataset empty(TinyData(0), 5), validation = empty;
  empty.reported_cardinality = validation.reported_cardinality = ls::unknown_cardinality;
  CHECK(contains(message_of<ls::DataError>([&] { trainer.fit(empty); }), "training data is empty"));
  CHECK(contains(
      message_of<ls::DataError>([&] { trainer.fit(rows(), {.validation_data = validation}); }),
      "validation_data is empty"));
}

TEST_CASE("fit: data that end although they repeat forever, or were to be more, end training") {
  const TinyData data(12);
  const auto samples = ls::from_tensor_slices(data.x, data.y);
  const auto none = samples.filter([](const auto&) { return false; });
  for (const int replicas : {1, 3}) {
    TinyTrainer trainer({.replicas = replicas});
    CHECK(contains(message_of<ls::DataError>(
                       [&] { trainer.fit(none.repeat().batch(4), {.steps_per_epoch = 2}); }),
                   "training data is empty"));
    CHECK(contains(
        message_of<ls::DataError>([&] { trainer.fit(none.repeat().take(13).batch(2), {}); }),
        "training data is empty"));
    RowDataset fewer(data, 5);
    fewer.reported_cardinality = 7;
    const CapturedStderr captured;
    trainer.fit(fewer, {.epochs = 2, .steps_per_epoch = 5});
    CHECK(contains(captured.text(), "the data ran out"));
    CHECK(trainer.iterations() == 3);
  }
}

TEST_CASE("fit: wrong options and data are refused before any work") {
  TinyTrainer trainer;
  const std::uint32_t before = trainer.parameters_crc32c();
  Recorder recorder;
  RowDataset endless = rows();
  endless.reported_cardinality = ls::infinite_cardinality;
  CHECK_THROWS_AS(trainer.fit(rows(), {.epochs = 0}, &recorder), ls::ConfigurationError);
  CHECK_THROWS_AS(trainer.fit(rows(), {.steps_per_epoch = 0}, &recorder), ls::ConfigurationError);
  CHECK_THROWS_AS(trainer.fit(rows(), {.initial_epoch = -1}, &recorder), ls::ConfigurationError);
  CHECK_THROWS_AS(trainer.fit(endless, {}, &recorder), ls::ConfigurationError);
  CHECK_THROWS_AS(trainer.fit(rows(), {.batch_size = 5}, &recorder), ls::ConfigurationError);
  CHECK_THROWS_AS(trainer.fit(rows(), {.validation_split = 0.5}, &recorder),
                  ls::ConfigurationError);
  CHECK_THROWS_AS(trainer.fit(RowDataset(TinyData(0), 5), {}, &recorder), ls::DataError);
  CHECK_THROWS_AS(trainer.fit(ls::AnyDataset(), {}, &recorder), ls::ConfigurationError);
  CHECK_THROWS_AS(trainer.fit(TinyData(10), {.batch_size = 0}, &recorder), ls::ConfigurationError);
  CHECK_THROWS_AS(trainer.fit(TinyData(10), {.batch_size = -5}, &recorder), ls::ConfigurationError);
  CHECK_THROWS_AS(trainer.fit(TinyData(10), {.validation_split = 1}, &recorder),
                  ls::ConfigurationError);
  CHECK_THROWS_AS(trainer.fit(TinyData(0), {}, &recorder), ls::DataError);
  CHECK(recorder.calls.empty());
  CHECK(trainer.parameters_crc32c() == before);
  CHECK(trainer.iterations() == 0);
}

TEST_CASE("fit: validation_freq as a number and as a list") {
  const auto validated = [](const ls::ValidationFrequency& frequency) {
    TinyTrainer trainer;
    Recorder recorder;
    const ls::History history = trainer.fit(
        rows(), {.epochs = 5, .validation_data = rows(), .validation_freq = frequency}, &recorder);
    CHECK(static_cast<std::size_t>(recorder.count("test_end")) == history["val_loss"].size());
    std::vector<int> epochs;
    for (std::size_t epoch = 0; epoch < 5; ++epoch)
      if (recorder.epoch_logs[epoch].contains("val_loss"))
        epochs.push_back(static_cast<int>(epoch));
    return epochs;
  };
  CHECK(validated(2) == std::vector<int>{1, 3});
  CHECK(validated(std::vector{1, 5}) == std::vector<int>{0, 4});
}

TEST_CASE("fit: validation_steps begins with the first batch each time") {
  TinyTrainer trainer(frozen);
  Recorder recorder;
  RowDataset endless = rows();
  endless.reported_cardinality = ls::infinite_cardinality;
  for (const auto& data : {rows(), endless}) {
    const ls::History history = trainer.fit(
        rows(), {.epochs = 2, .validation_data = data, .validation_steps = 2}, &recorder);
    for (const double loss : history["val_loss"])
      CHECK(loss == doctest::Approx(loss_of(trainer, 0, 10)).epsilon(1e-6));
  }
  CHECK(recorder.count("test_batch_end") == 8);
}

TEST_CASE("fit: validation neither trains nor counts") {
  TinyTrainer with, without;
  with.fit(rows(), {.epochs = 3, .validation_data = RowDataset(TinyData(9, 5), 4)});
  without.fit(rows(), {.epochs = 3});
  CHECK(with.parameters_crc32c() == without.parameters_crc32c());
  CHECK(with.iterations() == 15);
}

TEST_CASE("fit on arrays: validation_split takes the last samples, before it shuffles") {
  TinyTrainer trainer(frozen);
  Recorder recorder;
  const TinyData data(22);
  const ls::History history =
      trainer.fit(data, {.batch_size = 5, .epochs = 2, .validation_split = 0.25}, &recorder);
  CHECK(recorder.count("batch_end") == 2 * 4);  // 16 samples
  for (std::size_t epoch = 0; epoch < 2; ++epoch) {
    CHECK(history["loss"][epoch] == doctest::Approx(loss_of(trainer, 0, 16)).epsilon(1e-6));
    CHECK(history["val_loss"][epoch] == doctest::Approx(loss_of(trainer, 16, 22)).epsilon(1e-6));
  }
}

TEST_CASE("fit on arrays: validation_data makes validation_split mean nothing, as in Keras") {
  TinyTrainer trainer(frozen);
  const ls::History history =
      trainer.fit(TinyData(22), {.validation_split = 0.25, .validation_data = some_rows(3, 6)});
  CHECK(history["loss"][0] == doctest::Approx(loss_of(trainer, 0, 22)).epsilon(1e-6));
  CHECK(history["val_loss"][0] == doctest::Approx(loss_of(trainer, 3, 6)).epsilon(1e-6));
}

TEST_CASE("fit on arrays: in order without shuffle, else in another order each epoch") {
  const auto losses = [](bool shuffle) {
    TinyTrainer trainer(frozen);
    Recorder recorder;
    trainer.fit(TinyData(20), {.batch_size = 5, .epochs = 2, .shuffle = shuffle}, &recorder);
    return step_losses(recorder);
  };
  TinyTrainer trainer(frozen);
  Recorder recorder;
  trainer.fit(RowDataset(TinyData(20), 5), {.epochs = 2}, &recorder);
  const std::vector<double> in_order = step_losses(recorder);
  CHECK(losses(false) == in_order);
  const std::vector<double> shuffled = losses(true);
  CHECK(shuffled != in_order);
  CHECK(std::vector(shuffled.begin(), shuffled.begin() + 4) !=
        std::vector(shuffled.begin() + 4, shuffled.end()));
  CHECK(losses(true) == shuffled);
}

TEST_CASE("fit on arrays: the batch size is 32 when none is given") {
  TinyTrainer trainer;
  Recorder recorder;
  trainer.fit(TinyData(65), {}, &recorder);
  CHECK(recorder.count("batch_end") == 3);
}

TEST_CASE("fit: callbacks see and change the learning rate, and hear of updates") {
  TinyTrainer trainer({.learning_rate = 0.5});
  Recorder recorder;
  std::vector<double> rates;
  std::vector<std::int64_t> updates;
  recorder.at_batch_end = [&](ls::Training& training, std::int64_t, ls::Logs&) {
    rates.push_back(training.learning_rate());
    updates.push_back(training.iterations());
    training.set_learning_rate(training.learning_rate() / 2);
    CHECK(training.is_chief());
    CHECK(training.num_workers() == 1);
    CHECK(training.worker_index() == 0);
  };
  trainer.fit(rows(), {}, &recorder);
  CHECK(rates == std::vector<double>{0.5, 0.25, 0.125, 0.0625, 0.03125});
  CHECK(updates == std::vector<std::int64_t>{1, 2, 3, 4, 5});
  CHECK(trainer.learning_rate() == 0.015625);
}

TEST_CASE(
    "fit: a learning rate that is set between two fits is that of the second, and the updates "
    "still count") {
  TinyTrainer trainer({.learning_rate = 0.5}), constant({.learning_rate = 0.5}),
      low({.learning_rate = 0.125});
  for (TinyTrainer* each : {&trainer, &constant}) each->fit(rows());
  CHECK(trainer.parameters_crc32c() == constant.parameters_crc32c());
  trainer.set_learning_rate(0.125);
  CHECK(trainer.learning_rate() == 0.125);
  low.set_weights(trainer.get_weights());
  std::vector<double> rates;
  Recorder recorder;
  recorder.at_batch_end = [&](ls::Training& training, std::int64_t, ls::Logs&) {
    rates.push_back(training.learning_rate());
  };
  trainer.fit(rows(), {}, &recorder);
  low.fit(rows());
  CHECK(rates == std::vector<double>(5, 0.125));
  CHECK(trainer.parameters_crc32c() == low.parameters_crc32c());
  CHECK(trainer.iterations() == 10);
  for (const double wrong :
       {-0.1, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_AS(trainer.set_learning_rate(wrong), ls::ConfigurationError);
  CHECK(trainer.learning_rate() == 0.125);
}

TEST_CASE(
    "fit: a schedule counts updates over all fits, and the logs have the rate that comes next") {
  TinyTrainer trainer(
      {.learning_rate = [](std::int64_t step) { return 1.0 / static_cast<double>(step + 2); }});
  std::vector<double> rates;
  Recorder recorder;
  recorder.at_batch_begin = [&](ls::Training& training, std::int64_t) {
    rates.push_back(training.learning_rate());
  };
  for (const int fit : {0, 1}) {
    const ls::History history = trainer.fit(rows(), {}, &recorder);
    CHECK(history["learning_rate"] == std::vector<double>{1.0 / (5 * fit + 7)});
  }
  CHECK(rates == std::vector<double>{1.0 / 2, 1.0 / 3, 1.0 / 4, 1.0 / 5, 1.0 / 6, 1.0 / 7, 1.0 / 8,
                                     1.0 / 9, 1.0 / 10, 1.0 / 11});
  CHECK(trainer.learning_rate() == 1.0 / 12);
  CHECK(contains(message_of<ls::ConfigurationError>([&] { trainer.set_learning_rate(0.1); }),
                 "set_learning_rate: the optimizer has a schedule"));
}

TEST_CASE("fit: a schedule has the bits of rates that are set before each update") {
  TinyTrainer scheduled(
      {.learning_rate = ls::CosineDecay{.initial_learning_rate = 0.3, .decay_steps = 5}}),
      set(TinyOptions{});
  Recorder recorder;
  recorder.at_batch_begin = [](ls::Training& training, std::int64_t step) {
    training.set_learning_rate(
        ls::CosineDecay{.initial_learning_rate = 0.3, .decay_steps = 5}(step));
  };
  scheduled.fit(rows());
  set.fit(rows(), {}, &recorder);
  CHECK(scheduled.parameters_crc32c() == set.parameters_crc32c());
}

TEST_CASE("fit: parts of one shuffle are said, once; a prediction without a batch, too") {
  const TinyData data(20);
  const auto shuffled = ls::from_tensor_slices(data.x, data.y).shuffle(20);
  TinyTrainer trainer({.replicas = 2});
  const CapturedStderr output;
  trainer.fit(shuffled.skip(5).batch(5),
              {.epochs = 2, .validation_data = shuffled.take(5).batch(5)});
  CHECK(contains(output.text(), "are parts of one source behind a shuffle"));
  CHECK(output.text().find("warning") == output.text().rfind("warning"));
  CHECK(trainer.predict(shuffled.batch(64, true)).rows() == 0);
  CHECK(contains(output.text(), "warning: predict: the data is empty: batch(64, drop_remainder)"));
}

TEST_CASE("fit: with validation_freq = 2, a callback that looks at val_loss does not complain") {
  const auto said = [](const ls::FitOptions& options, const std::string& monitor) {
    TinyTrainer trainer;
    Recorder recorder;
    ls::EarlyStopping stopping({.monitor = monitor, .patience = 5});
    recorder.at_epoch_end = [&](ls::Training& training, int epoch, ls::Logs& logs) {
      if (epoch == 0) stopping.on_train_begin(training);
      stopping.on_epoch_end(training, epoch, logs);
    };
    const CapturedStderr output;
    trainer.fit(rows(), options, &recorder);
    return output.text();
  };
  CHECK_FALSE(contains(
      said({.epochs = 4, .validation_data = rows(), .validation_freq = 2}, "val_loss"), "warning"));
  CHECK(contains(said({.epochs = 4, .validation_data = rows(), .validation_freq = 2}, "val_auc"),
                 "no 'val_auc'"));
  CHECK(contains(said({.epochs = 2, .validation_data = rows(), .validation_freq = 3}, "val_loss"),
                 "no 'val_loss'"));
  CHECK(contains(said({.epochs = 2}, "val_loss"), "no 'val_loss'"));
}

TEST_CASE("fit: validation_steps beyond the data is said, once") {
  TinyTrainer trainer({.replicas = 2});
  const CapturedStderr output;
  trainer.fit(rows(), {.epochs = 3, .validation_data = rows(), .validation_steps = 9});
  CHECK(contains(output.text(),
                 "warning: fit: validation_data: the data ran out after 5 of 9 batches"));
  CHECK(output.text().find("warning") == output.text().rfind("warning"));
}

TEST_CASE(
    "fit: an exception in any hook ends it on the caller, and the model can be trained again") {
  struct Mine {};
  const auto fails = [](auto install) {
    TinyTrainer trainer;
    Recorder recorder;
    install(recorder);
    CHECK_THROWS_AS(trainer.fit(rows(), {.epochs = 2, .validation_data = rows()}, &recorder), Mine);
    CHECK(trainer.fit(rows(), {.epochs = 2})["loss"].size() == 2);
  };
  fails([](Recorder& r) { r.at_train_begin = [](auto&&...) { throw Mine(); }; });
  fails([](Recorder& r) { r.at_epoch_begin = [](auto&&...) { throw Mine(); }; });
  fails([](Recorder& r) { r.at_batch_begin = [](auto&&...) { throw Mine(); }; });
  fails([](Recorder& r) { r.at_batch_end = [](auto&&...) { throw Mine(); }; });
  fails([](Recorder& r) { r.at_test_begin = [](auto&&...) { throw Mine(); }; });
  fails([](Recorder& r) { r.at_epoch_end = [](auto&&...) { throw Mine(); }; });
}

#include "lockstep/training/fit.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/optimizers/schedules.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/row_losses.hpp"
#include "support/tiny_trainer.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_CASE("fit: stop_training at the end of a batch ends the epoch after that very batch") {
  TinyTrainer trainer;
  Recorder recorder;
  recorder.at_batch_end = [](ls::Training& training, std::int64_t batch, ls::Logs&) {
    if (batch == 1) training.stop_training();
  };
  const ls::History history =
      trainer.fit(rows(), {.epochs = 3, .validation_data = rows()}, &recorder);
  CHECK(recorder.count("batch_end") == 2);
  CHECK(trainer.iterations() == 2);
  CHECK(recorder.count("test_end") == 1);  // validation, epoch_end and train_end still run
  CHECK(recorder.count("epoch_end") == 1);
  CHECK(recorder.calls.back() == "train_end");
  CHECK(history["val_loss"].size() == 1);
}

TEST_CASE("fit: stop_training before a step takes effect after it, also when training begins") {
  for (const bool at_begin : {false, true}) {
    TinyTrainer trainer;
    Recorder recorder;
    if (at_begin)
      recorder.at_train_begin = [](ls::Training& training) { training.stop_training(); };
    else
      recorder.at_batch_begin = [](ls::Training& training, std::int64_t) {
        training.stop_training();
      };
    trainer.fit(rows(), {.epochs = 3}, &recorder);
    CHECK(recorder.calls == std::vector<std::string>{"train_begin", "epoch_begin 0",
                                                     "batch_begin 0", "batch_end 0", "epoch_end 0",
                                                     "train_end"});
  }
}

TEST_CASE(
    "fit: stop_training in the last step, in validation or at the end of an epoch ends with that "
    "epoch") {
  const auto run = [](auto install) {
    TinyTrainer trainer;
    Recorder recorder;
    install(recorder);
    trainer.fit(rows(), {.epochs = 4, .validation_data = rows()}, &recorder);
    CHECK(recorder.calls.back() == "train_end");
    CHECK(recorder.count("epoch_end") == 2);
    CHECK(recorder.count("batch_end") == 10);
  };
  run([](Recorder& r) {
    r.at_batch_end = [&r](ls::Training& training, std::int64_t batch, ls::Logs&) {
      if (batch == 4 && r.count("epoch_begin") == 2) training.stop_training();
    };
  });
  run([](Recorder& r) {
    r.at_test_begin = [&r](ls::Training& training) {
      if (r.count("epoch_begin") == 2) training.stop_training();
    };
  });
  run([](Recorder& r) {
    r.at_epoch_end = [](ls::Training& training, int epoch, ls::Logs&) {
      if (epoch == 1) training.stop_training();
    };
  });
}

TEST_CASE("fit: steps_per_epoch goes on with the same pass over the data") {
  TinyTrainer trainer(frozen);
  Recorder recorder;
  RowDataset endless = rows();
  endless.reported_cardinality = ls::infinite_cardinality;
  trainer.fit(endless, {.epochs = 3, .steps_per_epoch = 2}, &recorder);
  const std::vector<double> losses = step_losses(recorder);
  REQUIRE(losses.size() == 6);
  for (int step = 0; step < 4; ++step)
    CHECK(losses[static_cast<std::size_t>(step)] ==
          doctest::Approx(loss_of(trainer, 5 * step, 5 * step + 5)).epsilon(1e-5));
  const double last =
      (2 * loss_of(trainer, 20, 22) + 5 * loss_of(trainer, 0, 5)) / 7;  // then it begins again
  CHECK(recorder.epoch_logs[2].at("loss") == doctest::Approx(last).epsilon(1e-6));
}

TEST_CASE("fit: steps_per_epoch of a whole pass begins a new one each epoch") {
  TinyTrainer trainer(frozen);
  Recorder recorder;
  RowDataset data(TinyData(20), 5);
  trainer.fit(data, {.epochs = 3, .steps_per_epoch = 4}, &recorder);
  const std::vector<double> losses = step_losses(recorder);
  REQUIRE(losses.size() == 12);
  for (std::size_t step = 4; step < 12; ++step)
    CHECK(losses[step] == doctest::Approx(losses[step - 4]).epsilon(1e-6));
}

TEST_CASE("fit: data that run out end training after the epoch, with the logs so far") {
  TinyTrainer trainer(frozen);
  Recorder recorder;
  const ls::History history = trainer.fit(
      rows(), {.epochs = 4, .validation_data = rows(), .steps_per_epoch = 3}, &recorder);
  CHECK(recorder.count("batch_end") == 5);
  CHECK(recorder.count("epoch_end") == 2);
  CHECK(recorder.count("test_end") == 2);
  CHECK(recorder.calls.back() == "train_end");
  CHECK(history["loss"][1] == doctest::Approx(loss_of(trainer, 15, 22)).epsilon(1e-6));
}

TEST_CASE("fit: data that run out in the first epoch, and at the end of an epoch") {
  for (const std::int64_t steps : {9, 5}) {
    TinyTrainer trainer;
    Recorder recorder;
    RowDataset data = rows();
    if (steps == 5)
      data.reported_cardinality = ls::unknown_cardinality;  // else it would be a whole pass
    trainer.fit(data, {.epochs = 4, .steps_per_epoch = steps}, &recorder);
    CHECK(recorder.count("batch_end") == 5);
    CHECK(recorder.count("epoch_end") == 1);
    CHECK(recorder.calls.back() == "train_end");
  }
}

TEST_CASE("fit: data of unknown length are used up in each epoch") {
  TinyTrainer known, unknown;
  Recorder recorder;
  RowDataset data = rows();
  known.fit(data, {.epochs = 3});
  data.reported_cardinality = ls::unknown_cardinality;
  unknown.fit(data, {.epochs = 3}, &recorder);
  CHECK(recorder.count("batch_end") == 15);
  CHECK(unknown.parameters_crc32c() == known.parameters_crc32c());
}

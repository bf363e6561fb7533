#include "lockstep/callbacks/early_stopping.hpp"
#include "lockstep/callbacks/callback_list.hpp"
#include "lockstep/core/error.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "callbacks/fake_training.hpp"
#include "golden/callbacks.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using lockstep_test::CapturedStderr;
using lockstep_test::contains;
using lockstep_test::FakeTraining;
using lockstep_test::message_of;

namespace {

constexpr int no_epoch = -1;

/// Epochs whose weights are the number of the epoch, until the callback, or another one after
/// epoch `other_stops`, ends training.
struct Epochs {
  FakeTraining training = {};
  int made = 0;

  void begin(ls::EarlyStopping& stopper) {
    training.stopped = false;
    made = 0;
    stopper.on_train_begin(training);
  }
  void one(ls::EarlyStopping& stopper, double value, const char* figure = "val_loss") {
    training.weights = {static_cast<std::byte>(made)};
    ls::Logs logs;
    logs.set(figure, value);
    stopper.on_epoch_end(training, made++, logs);
  }
  /// Returns the epoch of the weights at the end.
  int run(ls::EarlyStopping& stopper, const std::vector<double>& values,
          int other_stops = no_epoch) {
    begin(stopper);
    for (const double value : values) {
      one(stopper, value);
      if (training.stopped || made == other_stops + 1) break;
    }
    ls::Logs logs;
    stopper.on_train_end(training, logs);
    return static_cast<int>(training.weights[0]);
  }
};

static_assert(
    !ls::CallbackList<ls::EarlyStopping>::presence().stop_in_batch);  // no exchange a step

}  // namespace

TEST_SUITE_BEGIN("Keras: callbacks");

TEST_CASE(
    "EarlyStopping: Keras's decisions, with any patience, min_delta, baseline and "
    "start_from_epoch") {
  for (const golden::EarlyStoppingCase& c : golden::early_stopping) {
    CAPTURE(&c - golden::early_stopping);
    ls::EarlyStopping stopper(
        {.min_delta = c.min_delta,
         .patience = c.patience,
         .mode = c.is_max ? ls::MonitorMode::max : ls::MonitorMode::min,
         .baseline = c.has_baseline ? std::optional(c.baseline) : std::nullopt,
         .restore_best_weights = true,
         .start_from_epoch = c.start_from_epoch});
    Epochs epochs;
    const int restored = epochs.run(stopper, {std::begin(c.values), std::end(c.values)});
    CHECK(epochs.made == c.epochs_made);
    CHECK(restored == c.restored_epoch);
    CHECK(stopper.wait() == c.wait);
  }
}

TEST_CASE("EarlyStopping: stops at epoch max(patience, 1) + 2 of Keras's nine losses") {
  for (const int patience : {0, 1, 2, 3}) {
    ls::EarlyStopping stopper({.patience = patience});
    Epochs().run(stopper, {10, 9, 8, 9, 8.9, 8.8, 8.7, 8.6, 8.5});
    CHECK(stopper.stopped_epoch() == std::max(patience, 1) + 2);
  }
}

TEST_CASE(
    "EarlyStopping: the weights of the best epoch come back, also where the baseline is not "
    "reached or another stops") {
  ls::EarlyStopping stopper({.patience = 2, .restore_best_weights = true});
  CHECK(Epochs().run(stopper, {0.2, 0.15, 0.1, 0.11, 0.12}) == 2);
  CHECK(stopper.best() == 0.1);
  CHECK(stopper.best_epoch() == 2);

  ls::EarlyStopping unreached({.patience = 5, .baseline = 0.5, .restore_best_weights = true});
  Epochs epochs;
  CHECK(epochs.run(unreached, {0.9, 0.8, 0.7, 0.71, 0.72, 0.73}) == 2);
  CHECK(epochs.made == 5);
  CHECK(epochs.run(unreached, {0.9, 0.8, 0.7, 0.71, 0.72, 0.73}, 3) == 2);
  CHECK(epochs.made == 4);

  ls::EarlyStopping without({.patience = 2});
  CHECK(Epochs().run(without, {0.2, 0.15, 0.1, 0.11, 0.12}) == 4);
}

TEST_CASE("EarlyStopping: a new fit begins afresh") {
  ls::EarlyStopping stopper({.patience = 1});
  Epochs epochs;
  epochs.run(stopper, {1, 2, 3});
  CHECK(stopper.stopped_epoch() == 1);
  epochs.begin(stopper);
  CHECK(stopper.stopped_epoch() == 0);
  CHECK(stopper.wait() == 0);
  CHECK_FALSE(stopper.best());
  epochs.one(stopper, 100);
  CHECK(stopper.best() == 100);
}

TEST_CASE("EarlyStopping: logs without the figure do not count; a NaN is never the best value") {
  const CapturedStderr output;
  ls::EarlyStopping stopper({.patience = 2});
  Epochs epochs;
  epochs.begin(stopper);
  for (int i = 0; i < 5; ++i) epochs.one(stopper, 1, "loss");
  CHECK_FALSE(epochs.training.stopped);
  CHECK(contains(output.text(), "EarlyStopping: monitor: the logs have no 'val_loss'"));

  const double nan = std::numeric_limits<double>::quiet_NaN();
  epochs.run(stopper, {nan, 5, 4, nan, nan});
  CHECK(stopper.best() == 4);
  CHECK(stopper.stopped_epoch() == 4);
}

TEST_CASE("EarlyStopping: what it knows is saved and restored, the weights byte by byte") {
  const ls::EarlyStoppingOptions options{.patience = 2, .restore_best_weights = true};
  ls::EarlyStopping stopper(options), resumed(options);
  Epochs epochs;
  epochs.begin(stopper);
  for (const double value : {3, 1, 2}) epochs.one(stopper, value);
  ls::State state;
  stopper.save(state);

  Epochs later{.made = epochs.made};
  resumed.on_train_begin(later.training);
  resumed.restore(state);
  CHECK(resumed.best() == 1);
  CHECK(resumed.best_epoch() == 1);
  CHECK(resumed.wait() == 1);
  later.one(resumed, 2);
  CHECK(later.training.stopped);
  ls::State again;
  resumed.save(again);
  CHECK(again.get<std::string>("best_weights") == state.get<std::string>("best_weights"));
  ls::Logs logs;
  resumed.on_train_end(later.training, logs);
  CHECK(later.training.weights == std::vector{std::byte{1}});

  ls::State fresh;
  ls::EarlyStopping().save(fresh);
  resumed.restore(fresh);
  CHECK_FALSE(resumed.best());
}

TEST_CASE(
    "EarlyStopping: verbose says, on the chief, that training ends and which weights come back") {
  ls::EarlyStopping stopper({.patience = 1, .verbose = 1, .restore_best_weights = true});
  const CapturedStderr output;
  Epochs others;
  others.training.chief = false;
  others.run(stopper, {1, 2});
  CHECK(output.text().empty());
  Epochs().run(stopper, {1, 2});
  CHECK(output.text() ==
        "lockstep: Epoch 2: early stopping\n"
        "lockstep: Restoring model weights from the end of the best epoch: 1.\n");
}

TEST_CASE("EarlyStopping: options that make no sense are refused") {
  const auto refusal = [](const ls::EarlyStoppingOptions& options) {
    return message_of<ls::ConfigurationError>([&] { ls::EarlyStopping stopper(options); });
  };
  CHECK(refusal({.patience = -1}) == "EarlyStopping: patience must be at least 0, got -1");
  CHECK(refusal({.start_from_epoch = -1}) ==
        "EarlyStopping: start_from_epoch must be at least 0, got -1");
  CHECK(contains(refusal({.monitor = "unknown"}),
                 "give .mode = MonitorMode::max or MonitorMode::min"));
}

TEST_SUITE_END();

namespace {

/// What the callback writes after a batch with this loss.
std::string said(FakeTraining& training, double loss) {
  ls::Logs logs;
  logs.set("loss", loss);
  const CapturedStderr output;
  ls::TerminateOnNaN{}.on_train_batch_end(training, 2, logs);
  return output.text();
}

constexpr double infinity = std::numeric_limits<double>::infinity();

// All ranks agree after the batch on what it has asked for.
static_assert(ls::CallbackList<ls::TerminateOnNaN>::presence().stop_in_batch);

}  // namespace

TEST_SUITE_BEGIN("Keras: callbacks");

TEST_CASE(
    "TerminateOnNaN: asks to stop when the loss is no finite number, and says which batch it was") {
  const std::string end = ": training ends\n";
  for (const auto& [loss, text] : {std::pair(std::nan(""), "nan"),
                                   {-std::nan(""), "nan"},
                                   {infinity, "inf"},
                                   {-infinity, "-inf"}}) {
    FakeTraining training;
    CHECK(said(training, loss) ==
          "lockstep: TerminateOnNaN: the loss of batch 3 is " + std::string(text) + end);
    CHECK(training.stopped);
  }
}

TEST_CASE("TerminateOnNaN: a finite loss, however large, and logs without a loss are no reason") {
  FakeTraining training;
  CHECK(said(training, 1e300) == "");
  CHECK(said(training, -1e300) == "");
  ls::Logs none;
  ls::TerminateOnNaN{.raise_error = true}.on_train_batch_end(training, 0, none);
  CHECK_FALSE(training.stopped);
}

TEST_CASE("TerminateOnNaN: all workers stop, the chief alone says so") {
  FakeTraining training;
  training.chief = false;
  CHECK(said(training, infinity) == "");
  CHECK(training.stopped);
}

TEST_CASE("TerminateOnNaN: raise_error throws in place of stopping") {
  FakeTraining training;
  ls::Logs logs;
  logs.set("loss", std::nan(""));
  const ls::TerminateOnNaN strict{.raise_error = true};
  CHECK(message_of<ls::Error>([&] { strict.on_train_batch_end(training, 0, logs); }) ==
        "TerminateOnNaN: the loss of batch 1 is nan: training ends");
  CHECK_FALSE(training.stopped);
}

TEST_SUITE_END();

#include "lockstep/callbacks/reduce_lr_on_plateau.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "callbacks/fake_training.hpp"
#include "golden/callbacks.hpp"
#include "lockstep/core/error.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using lockstep_test::CapturedStderr;
using lockstep_test::contains;
using lockstep_test::FakeTraining;
using lockstep_test::message_of;

namespace {

/// The rates after epochs with these values, from `first` on.
std::vector<double> rates(ls::ReduceLROnPlateau& callback, FakeTraining& training,
                          const std::vector<double>& values) {
  std::vector<double> all;
  for (const double value : values) {
    ls::Logs logs;
    logs.set("val_loss", value);
    const double in_force = training.rate;
    callback.on_epoch_end(training, static_cast<int>(all.size()), logs);
    CHECK(logs.at("learning_rate") == in_force);
    all.push_back(training.rate);
  }
  return all;
}

/// The rate after a number of epochs that bring no improvement.
double rate_after(int epochs, const ls::ReduceLROnPlateauOptions& options) {
  ls::ReduceLROnPlateau callback(options);
  FakeTraining training;
  callback.on_train_begin(training);
  return rates(callback, training, std::vector<double>(static_cast<std::size_t>(epochs), 1.0))
      .back();
}

}  // namespace

TEST_SUITE_BEGIN("Keras: callbacks");

TEST_CASE("ReduceLROnPlateau: Keras's rates, with any patience, min_delta, cooldown and min_lr") {
  for (const golden::ReduceLROnPlateauCase& c : golden::reduce_lr_on_plateau) {
    CAPTURE(&c - golden::reduce_lr_on_plateau);
    ls::ReduceLROnPlateau callback({.factor = 0.5,
                                    .patience = c.patience,
                                    .min_delta = c.min_delta,
                                    .cooldown = c.cooldown,
                                    .min_lr = c.min_lr});
    FakeTraining training;
    training.rate = 1;
    callback.on_train_begin(training);
    CHECK(rates(callback, training, {std::begin(c.values), std::end(c.values)}) ==
          std::vector<double>(std::begin(c.rates), std::end(c.rates)));
  }
}

TEST_CASE("ReduceLROnPlateau: Keras's own tests: after 2 epochs, with a cooldown, with min_lr") {
  CHECK(rate_after(2, {.patience = 1, .min_delta = 100}) == doctest::Approx(0.01));
  CHECK(rate_after(4, {.patience = 1, .min_delta = 100, .cooldown = 2}) == doctest::Approx(0.001));
  CHECK(rate_after(4, {.patience = 1, .min_delta = 10, .min_lr = 0.005}) == 0.005);
}

TEST_CASE("ReduceLROnPlateau: without the figure it does nothing but log the rate") {
  const CapturedStderr output;
  ls::ReduceLROnPlateau callback({.patience = 0});
  FakeTraining training;
  ls::Logs logs;
  logs.set("loss", 1);
  for (int epoch = 0; epoch < 3; ++epoch) callback.on_epoch_end(training, epoch, logs);
  CHECK(training.rate == 0.1);
  CHECK(logs.at("learning_rate") == 0.1);
  CHECK(contains(output.text(),
                 "no 'val_loss', so that it does nothing; available: loss, learning_rate"));
}

TEST_CASE("ReduceLROnPlateau: what it counts is saved and restored; a new fit begins afresh") {
  const ls::ReduceLROnPlateauOptions options{.patience = 3, .cooldown = 2};
  ls::ReduceLROnPlateau callback(options), resumed(options), afresh(options);
  const std::vector<double> values{3, 3, 3, 3, 3, 2, 3, 3, 3, 3, 3, 3};
  FakeTraining whole, first;
  const std::vector<double> expected = rates(callback, whole, values);
  CHECK(expected.back() < 0.01);
  for (std::size_t cut = 1; cut < values.size(); ++cut) {
    ls::ReduceLROnPlateau before(options);
    FakeTraining training;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(cut);
    rates(before, training, {values.begin(), middle});
    ls::State state;
    before.save(state);
    resumed.on_train_begin(training);
    resumed.restore(state);
    CHECK(rates(resumed, training, {middle, values.end()}).back() == expected.back());
  }
  CHECK(resumed.best() == 2);
  resumed.on_train_begin(first);
  CHECK(rates(resumed, first, values) == expected);
}

TEST_CASE(
    "ReduceLROnPlateau: a schedule is refused when training begins, and options that make no sense "
    "at once") {
  ls::ReduceLROnPlateau callback;
  FakeTraining training;
  training.has_schedule = true;
  CHECK(message_of<ls::ConfigurationError>([&] { callback.on_train_begin(training); }) ==
        "ReduceLROnPlateau: set_learning_rate: the optimizer has a schedule");
  const auto refusal = [](const ls::ReduceLROnPlateauOptions& options) {
    return message_of<ls::ConfigurationError>([&] { ls::ReduceLROnPlateau refused(options); });
  };
  CHECK(refusal({.factor = 1}) == "ReduceLROnPlateau: factor must be in [0, 1), got 1");
  CHECK(refusal({.factor = -0.5}) == "ReduceLROnPlateau: factor must be in [0, 1), got -0.5");
  CHECK(refusal({.patience = -1}) == "ReduceLROnPlateau: patience must be at least 0, got -1");
  CHECK(refusal({.cooldown = -1}) == "ReduceLROnPlateau: cooldown must be at least 0, got -1");
  CHECK(refusal({.min_lr = -1}) == "ReduceLROnPlateau: min_lr must be at least 0, got -1");
  CHECK(contains(refusal({.monitor = "unknown"}), "give .mode"));
}

TEST_CASE("ReduceLROnPlateau: verbose says each reduction, on the chief") {
  const CapturedStderr output;
  rate_after(2, {.factor = 0.5, .patience = 1, .verbose = 1});
  CHECK(output.text() == "lockstep: Epoch 2: ReduceLROnPlateau reducing learning rate to 0.05\n");
}

TEST_SUITE_END();

#include "lockstep/callbacks/learning_rate.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
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

/// Keeps the rates that were set, and may fail.
struct Observed : FakeTraining {
  std::vector<double> set = {};
  bool fails = false;
  void set_learning_rate(double learning_rate) override {
    if (fails) throw ls::DataError("of another kind");
    set.push_back(learning_rate);
    FakeTraining::set_learning_rate(learning_rate);
  }
};

}  // namespace

TEST_CASE("settable learning rate: it is asked by setting the rate that is in force") {
  Observed training;
  training.rate = 0.3;
  ls::detail::require_settable_learning_rate("MyCallback", training);
  CHECK(training.set == std::vector<double>{0.3});
  CHECK(training.rate == 0.3);
}

TEST_CASE("settable learning rate: a refusal names the callback, other errors are passed on") {
  Observed training;
  training.has_schedule = true;
  const auto ask = [&] { ls::detail::require_settable_learning_rate("MyCallback", training); };
  CHECK(message_of<ls::ConfigurationError>(ask) ==
        "MyCallback: set_learning_rate: the optimizer has a schedule");
  training.fails = true;
  CHECK(message_of<ls::DataError>(ask) == "of another kind");
}

namespace {

double warm_then_decay(int epoch, double rate) { return epoch < 10 ? rate : rate * std::exp(-0.1); }

static_assert(!std::is_constructible_v<ls::LearningRateScheduler, std::string (*)(int)>);
static_assert(!std::is_constructible_v<ls::LearningRateScheduler, double (*)(int, int, int)>);

}  // namespace

TEST_SUITE_BEGIN("Keras: callbacks");

TEST_CASE(
    "LearningRateScheduler: the rate of Keras's example after 15 epochs, and the rates in the "
    "logs") {
  ls::LearningRateScheduler scheduler(warm_then_decay);
  FakeTraining training;
  training.rate = 0.01;
  scheduler.on_train_begin(training);
  for (int epoch = 0; epoch < 15; ++epoch) {
    scheduler.on_epoch_begin(training, epoch);
    ls::Logs logs;
    scheduler.on_epoch_end(training, epoch, logs);
    CHECK(logs.at("learning_rate") == training.rate);
  }
  CHECK(training.rate == doctest::Approx(0.00607).epsilon(1e-3));
}

TEST_CASE("LearningRateScheduler: a function of the epoch alone, with state of its own") {
  int calls = 0;
  ls::LearningRateScheduler scheduler([&calls](int epoch) { return ++calls + epoch; });
  FakeTraining training;
  for (int epoch = 0; epoch < 3; ++epoch) scheduler.on_epoch_begin(training, epoch);
  CHECK(training.rate == 5);
  CHECK(calls == 3);
}

TEST_CASE(
    "LearningRateScheduler: an epoch that is resumed has its rate already, also in the next fit's "
    "first epoch") {
  const auto halves = [](int, double rate) { return rate / 2; };
  ls::LearningRateScheduler scheduler(halves), resumed(halves);
  FakeTraining training;
  training.rate = 8;
  scheduler.on_train_begin(training);
  scheduler.on_epoch_begin(training, 0);
  scheduler.on_epoch_begin(training, 1);
  ls::State state;
  scheduler.save(state);
  resumed.on_train_begin(training);
  resumed.restore(state);
  resumed.on_epoch_begin(training, 1);
  CHECK(training.rate == 2);
  resumed.on_epoch_begin(training, 2);
  CHECK(training.rate == 1);
  resumed.on_train_begin(training);
  resumed.on_epoch_begin(training, 2);
  CHECK(training.rate == 0.5);
}

TEST_CASE(
    "LearningRateScheduler: a schedule of the optimizer is refused, and a rate that is none, with "
    "the epoch") {
  FakeTraining training;
  training.has_schedule = true;
  ls::LearningRateScheduler scheduler(warm_then_decay);
  CHECK(message_of<ls::ConfigurationError>([&] { scheduler.on_train_begin(training); }) ==
        "LearningRateScheduler: set_learning_rate: the optimizer has a schedule");
  CHECK(message_of<ls::ConfigurationError>([&] { scheduler.on_epoch_begin(training, 2); }) ==
        "LearningRateScheduler: epoch 3: set_learning_rate: the optimizer has a schedule");
}

TEST_CASE("LearningRateScheduler: verbose says each rate, on the chief") {
  const CapturedStderr output;
  ls::LearningRateScheduler scheduler([](int) { return 0.25; }, 1);
  FakeTraining training;
  scheduler.on_epoch_begin(training, 0);
  training.chief = false;
  scheduler.on_epoch_begin(training, 1);
  CHECK(output.text() ==
        "lockstep: Epoch 1: LearningRateScheduler setting learning rate to 0.25\n");
}

TEST_SUITE_END();

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

namespace {

/// The finder's fit, of one epoch, in which the loss is loss(rate).
template <class F>
void find(ls::LearningRateFinder& finder, FakeTraining& training, int steps, F loss) {
  finder.on_train_begin(training);
  double sum = 0;
  ls::Logs logs;
  for (int batch = 0; batch < steps && !training.stopped; ++batch) {
    sum += loss(training.rate);
    logs.set("loss", sum / (batch + 1));
    training.weights.push_back(std::byte{7});  // a step
    finder.on_train_batch_end(training, batch, logs);
  }
  finder.on_train_end(training, logs);
}

/// Lowest at 0.1.
double valley(double rate) { return 1 + std::pow(std::log10(rate) + 1, 2); }

}  // namespace

TEST_CASE("LearningRateFinder: rates grow by one factor, the suggestion is a tenth of the lowest") {
  const CapturedStderr output;
  ls::LearningRateFinder finder(
      {.min_lr = 1e-4, .max_lr = 10, .steps = 51, .stop_factor = 100, .smoothing = 0});
  CHECK_FALSE(finder.suggestion());
  FakeTraining training;
  training.weights = {std::byte{1}};
  find(finder, training, 1000, valley);
  CHECK(training.stopped);
  REQUIRE(finder.points().size() == 51);
  CHECK(finder.points().front().learning_rate == 1e-4);
  CHECK(finder.points().back().learning_rate == doctest::Approx(10));
  for (std::size_t i = 1; i < 51; ++i)
    CHECK(finder.points()[i].learning_rate / finder.points()[i - 1].learning_rate ==
          doctest::Approx(std::pow(10, 0.1)));
  CHECK(finder.suggestion().value() == doctest::Approx(0.01));
  CHECK(training.rate == 0.1);
  CHECK(training.weights == std::vector<std::byte>{std::byte{1}});
  CHECK(contains(output.text(), "lowest at a learning rate of 0.1: begin with 0.01"));
  training.stopped = false;
  find(finder, training, 10, valley);  // data that end early
  CHECK(finder.points().size() == 10);
}

TEST_CASE("LearningRateFinder: a loss that grows, or is no number, ends it") {
  for (const double bad :
       {1e9, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    ls::LearningRateFinder finder({.min_lr = 1e-4, .steps = 51, .verbose = 0});
    FakeTraining training;
    find(finder, training, 1000, [&](double rate) { return rate > 0.5 ? bad : valley(rate); });
    CHECK(training.stopped);
    CHECK(finder.points().size() < 51);
    CHECK(finder.points().back().learning_rate > 0.5);
    CHECK(finder.suggestion().value() < 0.05);
  }
}

TEST_CASE("LearningRateFinder: the loss of a step, smoothed, also in a second epoch") {
  ls::LearningRateFinder finder({.smoothing = 0.75, .verbose = 0});
  FakeTraining training;
  finder.on_train_begin(training);
  const double losses[] = {4, 2, 3, 1};
  ls::Logs logs;
  for (int i = 0; i < 4; ++i) {
    logs.set("loss", i % 2 == 0 ? losses[i] : (losses[i - 1] + losses[i]) / 2);
    finder.on_train_batch_end(training, i % 2, logs);
  }
  double smooth = 4;
  for (std::size_t i = 0; i < 4; ++i) {
    if (i > 0) smooth = 0.75 * smooth + 0.25 * losses[i];
    CHECK(finder.points()[i].loss == doctest::Approx(smooth));
  }
}

TEST_CASE("LearningRateFinder: a schedule is refused, and options that make no sense") {
  ls::LearningRateFinder finder;
  FakeTraining training;
  training.has_schedule = true;
  CHECK(message_of<ls::ConfigurationError>([&] { finder.on_train_begin(training); }) ==
        "LearningRateFinder: set_learning_rate: the optimizer has a schedule");
  const auto refusal = [](const ls::LearningRateFinderOptions& options) {
    return message_of<ls::ConfigurationError>([&] { ls::LearningRateFinder refused(options); });
  };
  CHECK(contains(refusal({.min_lr = 0}), "min_lr must be above 0 and below max_lr, got 0 and 10"));
  CHECK(contains(refusal({.max_lr = 1e-7}), "got 1e-06 and 1e-07"));
  CHECK(refusal({.steps = 1}) == "LearningRateFinder: steps must be at least 2, got 1");
  CHECK(refusal({.stop_factor = 1}) == "LearningRateFinder: stop_factor must be above 1, got 1");
  CHECK(refusal({.smoothing = 1}) == "LearningRateFinder: smoothing must be in [0, 1), got 1");
}

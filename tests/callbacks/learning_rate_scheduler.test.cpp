#include "lockstep/callbacks/learning_rate_scheduler.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "callbacks/fake_training.hpp"
#include "lockstep/core/error.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using lockstep_test::CapturedStderr;
using lockstep_test::contains;
using lockstep_test::FakeTraining;
using lockstep_test::message_of;

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

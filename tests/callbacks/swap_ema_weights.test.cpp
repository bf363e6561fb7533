#include "lockstep/callbacks/swap_ema_weights.hpp"

#include <doctest/doctest.h>

#include "callbacks/fake_training.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using lockstep_test::contains;
using lockstep_test::FakeTraining;
using lockstep_test::message_of;

namespace {

struct Averaging : FakeTraining {
  bool averages = true;  // the optimizer keeps them
  bool shown = false;
  int swaps = 0;
  [[nodiscard]] bool has_averages() const override { return averages; }
  [[nodiscard]] bool shows_averages() const override { return shown; }
  void swap_averages() override {
    shown = !shown;
    ++swaps;
  }
};

}  // namespace

TEST_CASE("SwapEMAWeights: an evaluation and a prediction see the averages, training the weights") {
  Averaging training;
  ls::SwapEMAWeights swap;
  ls::Logs logs;
  swap.on_train_begin(training);
  CHECK_FALSE(training.shown);
  swap.on_test_begin(training);
  CHECK(training.shown);
  swap.on_test_end(training, logs);
  CHECK_FALSE(training.shown);
  swap.on_predict_begin(training);
  CHECK(training.shown);
  swap.on_predict_end(training);
  CHECK_FALSE(training.shown);
  swap.on_epoch_end(training, 0, logs);
  CHECK_FALSE(training.shown);
  CHECK(training.swaps == 4);
}

TEST_CASE("SwapEMAWeights: with swap_on_epoch they stay from the epoch's end on") {
  Averaging training;
  ls::SwapEMAWeights swap{.swap_on_epoch = true};
  ls::Logs logs;
  swap.on_epoch_end(training, 0, logs);
  CHECK(training.shown);
  // An evaluation by a callback after this one finds them there, and leaves them.
  swap.on_test_begin(training);
  CHECK(training.shown);
  swap.on_test_end(training, logs);
  CHECK(training.shown);
  swap.on_epoch_end(training, 0, logs);
  CHECK(training.shown);
  CHECK(training.swaps == 1);
}

TEST_CASE("SwapEMAWeights: what another one has put back is not swapped again") {
  Averaging training;
  ls::SwapEMAWeights swap;
  ls::Logs logs;
  swap.on_test_begin(training);
  training.swap_averages();
  swap.on_test_end(training, logs);
  CHECK_FALSE(training.shown);
  swap.on_test_end(training, logs);  // without a beginning
  CHECK_FALSE(training.shown);
}

TEST_CASE("SwapEMAWeights: an optimizer without averages is refused, in fit and in evaluate") {
  Averaging training;
  training.averages = false;
  ls::SwapEMAWeights swap;
  for (const auto& message :
       {message_of<ls::ConfigurationError>([&] { swap.on_train_begin(training); }),
        message_of<ls::ConfigurationError>([&] { swap.on_test_begin(training); }),
        message_of<ls::ConfigurationError>([&] { swap.on_predict_begin(training); })})
    CHECK(contains(message, "compile with one that has .use_ema = true"));
  CHECK(training.swaps == 0);
}

#include "lockstep/callbacks/early_stopping.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "callbacks/fake_training.hpp"
#include "lockstep/callbacks/callback_list.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using lockstep_test::CapturedStderr;
using lockstep_test::contains;
using lockstep_test::FakeTraining;
using lockstep_test::message_of;

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

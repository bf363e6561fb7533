#include "lockstep/callbacks/monitor.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <optional>
#include <string>

#include "callbacks/fake_training.hpp"
#include "lockstep/core/error.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using lockstep_test::CapturedStderr;
using lockstep_test::contains;
using lockstep_test::FakeTraining;
using lockstep_test::message_of;
using ls::MonitorMode;
using ls::detail::greater_is_better;
using ls::detail::Monitor;

TEST_CASE(
    "monitor: names of Keras's metrics and losses tell which values are better; others do not") {
  for (const char* name :
       {"acc", "val_accuracy", "binary_accuracy", "sparse_top_k_categorical_accuracy", "auc",
        "auc_1", "val_auc_12", "precision", "precision_at_recall", "f1_score", "r2_score",
        "mean_io_u", "digit_accuracy", "val_digit_accuracy_2", "true_positives",
        "cosine_similarity"})
    CHECK_MESSAGE(greater_is_better(name) == std::optional(true), name);
  for (const char* name :
       {"loss", "val_loss", "digit_loss", "mean_squared_error", "hinge", "categorical_hinge", "mse",
        "val_mae", "kl_divergence", "sparse_categorical_crossentropy", "false_positives", "loss_3"})
    CHECK_MESSAGE(greater_is_better(name) == std::optional(false), name);
  for (const char* name : {"", "unknown", "val_unknown", "lossy", "macc", "val_", "_1", "7"})
    CHECK_MESSAGE(!greater_is_better(name), name);
}

TEST_CASE(
    "monitor: a mode counts before the name; without both the figure is refused with the remedy") {
  CHECK(Monitor("C", "loss", MonitorMode::max, 0).is_better(2, 1.0));
  CHECK_FALSE(Monitor("C", "loss", MonitorMode::automatic, 0).is_better(2, 1.0));
  CHECK(Monitor("C", "fluency", MonitorMode::min, 0).is_better(1, 2.0));
  CHECK(message_of<ls::ConfigurationError>(
            [] { Monitor("C", "fluency", MonitorMode::automatic, 0); }) ==
        "C: monitor: whether more or less of 'fluency' is better is not known: give .mode = "
        "MonitorMode::max or "
        "MonitorMode::min, if the name is right");
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(contains(
      message_of<ls::ConfigurationError>([&] { Monitor("C", "loss", MonitorMode::min, infinity); }),
      "C: min_delta must be finite, got inf"));
}

TEST_CASE(
    "monitor: an improvement is more than min_delta, of either sign; any number improves on none, "
    "NaN on nothing") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double delta : {0.5, -0.5}) {
    const Monitor less("C", "loss", MonitorMode::min, delta),
        more("C", "auc", MonitorMode::max, delta);
    CHECK(less.is_better(1, 1.75));
    CHECK_FALSE(less.is_better(1, 1.5));
    CHECK(more.is_better(1.75, 1.0));
    CHECK_FALSE(more.is_better(1.5, 1.0));
    CHECK(less.is_better(9, std::nullopt));
    CHECK_FALSE(less.is_better(nan, std::nullopt));
    CHECK_FALSE(more.is_better(nan, 1.0));
  }
}

TEST_CASE("monitor: logs that lack the figure are said once, by the chief, with what there is") {
  FakeTraining training;
  Monitor monitor("EarlyStopping", "val_loss", MonitorMode::automatic, 0);
  ls::Logs logs;
  logs.set("loss", 1);
  logs.set("accuracy", 2);
  const CapturedStderr output;
  CHECK(monitor.find(training, logs) == nullptr);
  CHECK(monitor.find(training, logs) == nullptr);
  CHECK(output.text() ==
        "lockstep: warning: EarlyStopping: monitor: the logs have no 'val_loss', so that it does "
        "nothing; available: "
        "loss, accuracy\n");
  logs.set("val_loss", 3);
  REQUIRE(monitor.find(training, logs) != nullptr);
  CHECK(*monitor.find(training, logs) == 3);
  training.chief = false;
  Monitor of_another("EarlyStopping", "x_loss", MonitorMode::automatic, 0);
  CHECK(of_another.find(training, logs) == nullptr);
  CHECK_FALSE(contains(output.text(), "x_loss"));
}

// The callback alone; with a model it is tested in tests/saving/model_files.test.cpp.
#include "lockstep/callbacks/model_checkpoint.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "callbacks/fake_training.hpp"
#include "checkpoint/checkpoint_testing.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/checkpoint_folder.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/core/error.hpp"
#include "support/captured_stderr.hpp"
#include "support/comma_locale.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// Of epoch 3 (the third), loss 0.125 and val_loss 1234.5678.
std::string path_of(std::string_view text, std::optional<std::int64_t> batch = std::nullopt) {
  ls::Logs logs;
  logs.set("loss", 0.125);
  logs.set("val_loss", 1234.5678);
  logs.set("largest", -std::numeric_limits<double>::max());
  return ls::FilepathTemplate(text).format(2, batch, logs);
}
std::string refusal(std::string_view text, std::optional<std::int64_t> batch = std::nullopt) {
  return message_of<ls::ConfigurationError>([&] { (void)path_of(text, batch); });
}

}  // namespace

TEST_CASE("filepath: as Python's str.format has it") {
  CHECK(path_of("run/model") == "run/model");
  CHECK(path_of("{epoch}") == "3");
  CHECK(path_of("a/{epoch:02d}-{val_loss:.2f}.npz") == "a/03-1234.57.npz");
  CHECK(path_of("{epoch:4d}|{epoch:04d}|{epoch:d}") == "   3|0003|3");
  CHECK(path_of("{epoch:.1f}") == "3.0");
  CHECK(path_of("{loss}{loss:e}{loss:g}{loss:f}") == "0.1251.250000e-010.1250.125000");
  CHECK(path_of("{loss:8.3f}{loss:08.3f}{loss:.0f}") == "   0.1250000.1250");
  CHECK(path_of("{{{epoch}}}") == "{3}");
  CHECK(path_of("{epoch}-{batch:03d}", 9) == "3-010");
  CHECK(path_of("{largest:.99f}").size() == 1 + 309 + 1 + 99);
  CHECK(path_of("{largest:999g}").size() == 999);
  CHECK(path_of("") == "");
}

TEST_CASE("filepath: a missing figure is an error that lists the existing ones") {
  CHECK(contains(refusal("{val_accuracy:.2f}"),
                 "'val_accuracy' is not there; available: epoch, loss, val_loss"));
  CHECK(contains(refusal("{batch}"), "'batch' is not there; available: epoch, loss"));
  CHECK(contains(refusal("{acc}", 3), "available: epoch, batch, loss"));
  CHECK(contains(refusal("{loss:02d}"), "'loss' is no whole number"));
  CHECK(contains(refusal("{epoch:.2d}"), "'epoch' is a whole number and has no precision"));
}

TEST_CASE("filepath: a text that is no template is an error before training begins") {
  for (const char* text : {"{", "}", "a{epoch", "{}", "{:d}", "{epoch:x}", "{epoch:2}",
                           "{epoch:dd}", "{loss:.f}", "{loss:.100f}", "{loss:1000f}", "{loss:-3f}",
                           "{loss:%f}", "{loss:*f}", "{epoch:s}", "{epoch:n}"}) {
    CAPTURE(text);
    CHECK(contains(message_of<ls::ConfigurationError>([&] { ls::FilepathTemplate{text}; }),
                   "expected for example"));
  }
}

TEST_CASE("filepath: no locale of the program changes the names of files") {
  const lockstep_test::CommaLocale locale;
  if (!locale.has_printf()) MESSAGE("printf does not follow a locale here: nothing is tested");
  CHECK(path_of("m-{epoch:02d}-{val_loss:.2f}.safetensors") == "m-03-1234.57.safetensors");
  CHECK(path_of("{loss}|{loss:e}|{loss:08.3f}|{val_loss:g}") ==
        "0.125|1.250000e-01|0000.125|1234.57");
}

TEST_CASE("filepath: widths and zeros as printf has them, also of numbers below 0 and none") {
  ls::Logs logs;
  logs.set("a", -0.5);
  logs.set("nan", std::numeric_limits<double>::quiet_NaN());
  logs.set("inf", -std::numeric_limits<double>::infinity());
  const auto format = [&](std::string_view text) {
    return ls::FilepathTemplate(text).format(0, {}, logs);
  };
  CHECK(format("{a:07.2f}|{a:7.2f}|{a:012e}|{a:02.0f}") == "-000.50|  -0.50|-5.000000e-01|-0");
  CHECK(format("{nan:06f}|{inf:06f}|{nan:f}") == "   nan|  -inf|nan");
}

namespace {

using Options = ls::ModelCheckpointOptions;

/// The hooks of an epoch, as fit calls them. True when the callback saved to `path`, which is
/// removed.
bool saves(ls::ModelCheckpoint& callback, FakeTraining& training, int epoch,
           const std::string& path, double val_loss, double accuracy = 0) {
  ls::Logs logs;
  logs.set("loss", 1);
  logs.set("val_loss", val_loss);
  logs.set("accuracy", accuracy);
  callback.on_epoch_begin(training, epoch);
  callback.on_epoch_end(training, epoch, logs);
  CHECK_FALSE(std::filesystem::exists(path));  // not before the state is complete
  callback.on_epoch_complete(training, epoch);
  const bool saved = std::filesystem::exists(path);
  ls::remove_file(path);
  return saved;
}

std::string refused_options(Options options) {
  return message_of<ls::ConfigurationError>([&] { ls::ModelCheckpoint{options}; });
}

}  // namespace

TEST_SUITE_BEGIN("Keras: callbacks");

TEST_CASE("ModelCheckpoint: the whole state after every epoch, under the epoch's name") {
  const TemporaryFolder folder;
  ls::ModelCheckpoint callback({.filepath = folder.path("deep/{epoch:02d}-{val_loss:.2f}")});
  FakeTraining training;
  training.snapshot = full_state();
  ls::Logs logs;
  logs.set("val_loss", 0.456);
  for (int epoch = 0; epoch < 2; ++epoch) {
    callback.on_epoch_begin(training, epoch);
    callback.on_epoch_end(training, epoch, logs);
    callback.on_epoch_complete(training, epoch);
  }
  CHECK(ls::decode_checkpoint(*ls::read_file(folder.path("deep/01-0.46"))) == full_state());
  CHECK(std::filesystem::exists(folder.path("deep/02-0.46")));
}

TEST_CASE("ModelCheckpoint: weights alone, by the extension") {
  const TemporaryFolder folder;
  FakeTraining training;
  training.snapshot = full_state();
  for (const char* name : {"w", "w.npz", "w.safetensors"}) {
    CAPTURE(name);
    const std::string path = folder.path(name);
    ls::ModelCheckpoint callback({.filepath = path, .save_weights_only = true});
    ls::Logs logs;
    callback.on_epoch_end(training, 0, logs);
    callback.on_epoch_complete(training, 0);
    const auto arrays = ls::decode_weights(path, *ls::read_file(path));
    CHECK(arrays.size() == 3);  // trained and not
    CHECK(arrays[1] == full_state().parameters[1]);
  }
}

TEST_CASE("ModelCheckpoint: the best only") {
  const TemporaryFolder folder;
  const std::string path = folder.path("best");
  FakeTraining training;
  ls::ModelCheckpoint lowest({.filepath = path, .save_best_only = true});
  CHECK(saves(lowest, training, 0, path, 2.0));
  CHECK_FALSE(saves(lowest, training, 1, path, 2.0));
  CHECK_FALSE(saves(lowest, training, 2, path, 2.5));
  CHECK_FALSE(saves(lowest, training, 3, path, NAN));
  CHECK(saves(lowest, training, 4, path, 1.5));
  CHECK(lowest.best() == 1.5);

  ls::ModelCheckpoint accuracy(
      {.filepath = path, .monitor = "accuracy", .save_best_only = true});  // auto: max
  CHECK(saves(accuracy, training, 0, path, 0, 0.5));
  CHECK_FALSE(saves(accuracy, training, 1, path, 0, 0.4));
  CHECK(saves(accuracy, training, 2, path, 0, 0.6));

  ls::ModelCheckpoint greatest(
      {.filepath = path, .save_best_only = true, .mode = ls::MonitorMode::max});
  CHECK(saves(greatest, training, 0, path, 2.0));
  CHECK_FALSE(saves(greatest, training, 1, path, 1.0));

  ls::ModelCheckpoint least({.filepath = path,
                             .monitor = "accuracy",
                             .save_best_only = true,
                             .mode = ls::MonitorMode::min});
  CHECK(saves(least, training, 0, path, 0, 0.5));
  CHECK(saves(least, training, 0, path, 0, 0.4));

  // A figure of one's own: Keras 3 has no direction for it either.
  CHECK(contains(refused_options({.filepath = path, .monitor = "val_dice", .save_best_only = true}),
                 "ModelCheckpoint: monitor: whether more or less of 'val_dice' is better is not "
                 "known: give .mode"));
  CHECK_NOTHROW(ls::ModelCheckpoint({.filepath = path, .monitor = "val_dice"}));

  ls::ModelCheckpoint from_one(
      {.filepath = path, .save_best_only = true, .initial_value_threshold = 1.0});
  CHECK_FALSE(saves(from_one, training, 0, path, 1.2));
  CHECK(saves(from_one, training, 1, path, 0.9));
}

TEST_CASE("ModelCheckpoint: the best value is part of the saved state") {
  const TemporaryFolder folder;
  const std::string path = folder.path("best");
  FakeTraining training;
  const Options options{.filepath = path, .save_best_only = true};
  ls::ModelCheckpoint before(options), resumed(options);
  CHECK(saves(before, training, 0, path, 0.5));
  ls::State state;
  before.save(state);
  resumed.restore(state);
  CHECK_FALSE(saves(resumed, training, 1, path, 0.7));
  CHECK(saves(resumed, training, 2, path, 0.4));
}

TEST_CASE("ModelCheckpoint: every n steps, counted across epochs") {
  const TemporaryFolder folder;
  ls::ModelCheckpoint callback(
      {.filepath = folder.path("{epoch}-{batch}-{loss:.1f}"), .save_freq = 3});
  FakeTraining training;
  ls::Logs logs;
  logs.set("loss", 0.5);
  for (int epoch = 0; epoch < 2; ++epoch) {
    callback.on_epoch_begin(training, epoch);
    for (std::int64_t batch = 0; batch < 4; ++batch) {
      ++training.updates;
      callback.on_train_batch_end(training, batch, logs);
      callback.on_train_batch_complete(training, batch);
    }
    callback.on_epoch_end(training, epoch, logs);
    callback.on_epoch_complete(training, epoch);
  }
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder.path()))
    names.push_back(file.path().filename());
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"1-3-0.5", "2-2-0.5"});
}

TEST_CASE(
    "ModelCheckpoint: steps are counted since the last save, whatever updates the model has made "
    "before") {
  const TemporaryFolder folder;
  const std::string path = folder.path("model");
  FakeTraining training;
  training.updates = 100;
  ls::Logs logs;
  std::vector<int> saves;
  const auto step = [&](ls::ModelCheckpoint& callback, int number) {
    training.verify_asked = false;
    callback.on_train_batch_begin(training, number);
    CHECK(training.verify_asked ==
          (number % 3 == 0));  // the replicas are compared in the step of the save
    ++training.updates;
    callback.on_train_batch_end(training, number, logs);
    callback.on_train_batch_complete(training, number);
    if (std::filesystem::exists(path)) saves.push_back(number);
    ls::remove_file(path);
  };
  ls::ModelCheckpoint callback({.filepath = path, .save_freq = 3}),
      resumed({.filepath = path, .save_freq = 3});
  for (int number = 1; number <= 4; ++number) step(callback, number);
  ls::State state;
  callback.save(state);
  resumed.restore(state);
  for (int number = 5; number <= 9; ++number) step(resumed, number);
  CHECK(saves == std::vector<int>{3, 6, 9});
  resumed.restore(ls::State{});  // of a run with another option: nothing is lost
}

TEST_CASE(
    "ModelCheckpoint: marks its folder when training ends, and removes the mark when training goes "
    "on") {
  const TemporaryFolder folder;
  FakeTraining training;
  ls::Logs logs;
  const auto ends = [&](Options options) {
    ls::ModelCheckpoint callback(options);
    callback.on_train_begin(training);
    CHECK_FALSE(ls::training_has_ended(folder.path("run")));
    callback.on_train_end(training, logs);
    return ls::training_has_ended(folder.path("run"));
  };
  training.chief = false;
  CHECK_FALSE(ends({.filepath = folder.path("run/{epoch}")}));
  training.chief = true;
  CHECK_FALSE(ends({.filepath = folder.path("run/{epoch}"), .save_weights_only = true}));
  CHECK_FALSE(ends({.filepath = folder.path("{epoch}/model")}));
  CHECK_FALSE(std::filesystem::exists(folder.path("{epoch}")));
  for (int run = 0; run < 2; ++run) CHECK(ends({.filepath = folder.path("run/{epoch}")}));
}

TEST_CASE("ModelCheckpoint: only the chief writes, and all decide alike") {
  const TemporaryFolder folder;
  const std::string path = folder.path("best");
  FakeTraining other;
  other.chief = false;
  ls::ModelCheckpoint callback({.filepath = path, .save_best_only = true});
  CHECK_FALSE(saves(callback, other, 0, path, 0.5));
  CHECK(callback.best() == 0.5);
}

TEST_CASE("ModelCheckpoint: options that make no sense are errors that say why") {
  CHECK(contains(refused_options({}), "filepath is empty"));
  CHECK(contains(refused_options({.filepath = "a{"}), "a '{' without a '}'"));
  CHECK(contains(refused_options({.filepath = "a.npz"}), "weights alone"));
  CHECK(contains(refused_options({.filepath = "a.safetensors"}), "weights alone"));
  FakeTraining training;
  ls::Logs logs;
  logs.set("loss", 1);
  ls::ModelCheckpoint best({.filepath = "/dev/null/x", .save_best_only = true});
  for (const char* times : {"once", "and not again"}) {
    const CapturedStderr output;
    best.on_epoch_end(training, 0, logs);
    best.on_epoch_complete(training, 0);  // nothing is due
    CAPTURE(times);
    CHECK(contains(output.text(), "the logs have no 'val_loss'; available: loss") ==
          (*times == 'o'));
  }
  ls::ModelCheckpoint every({.filepath = "/dev/null/x"});
  every.on_epoch_end(training, 0, logs);
  CHECK(
      contains(message_of<ls::Error>([&] { every.on_epoch_complete(training, 0); }), "/dev/null"));
}

TEST_CASE("ModelCheckpoint: writes nothing before the replicas are compared") {
  const TemporaryFolder folder;
  const std::string path = folder.path("model");
  ls::ModelCheckpoint callback({.filepath = path, .save_freq = 2});
  FakeTraining training;
  ls::Logs logs;
  const auto step = [&](bool verified) {
    training.verify_asked = false;
    callback.on_train_batch_begin(training, 0);
    ++training.updates;
    training.verified = verified;
    callback.on_train_batch_end(training, 0, logs);
    callback.on_train_batch_complete(training, 0);
    return training.verify_asked;
  };
  CHECK_FALSE(step(true));
  CHECK(step(false));  // before it, and for the next step
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK_FALSE(step(true));
  CHECK(std::filesystem::exists(path));
}

TEST_SUITE_END();

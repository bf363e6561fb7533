// The evaluator and a trainer in one process; with processes it is tested in
// tests/integration/sidecar_evaluator.test.cpp.
#include "lockstep/saving/sidecar_evaluator.hpp"
#include "lockstep/callbacks/model_checkpoint.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/saving/checkpoint.hpp"
#include "lockstep/strategies/one_device.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

/// A strategy that can say that it has several workers.
struct CountedStrategy : ls::OneDeviceStrategy {
  int workers = 1;
  [[nodiscard]] int num_workers() const noexcept { return workers; }
};

auto make(CountedStrategy& strategy, double momentum = 0.5) {
  return ls::compile<TinyNet>(strategy, {.seed = 1},
                              ls::SparseCategoricalCrossentropy{.from_logits = true},
                              ls::SGD{.learning_rate = 0.2, .momentum = momentum}, ls::Accuracy{});
}

ls::AnyDataset test_data() {
  const TinyData data(30, 2);
  return ls::from_tensor_slices(data.x, data.y).batch(8);
}

/// One epoch of four updates, and what the model is worth then.
template <class Model, class... Callbacks>
ls::Logs trained(Model& model, int epoch, Callbacks&&... callbacks) {
  const TinyData data(20);
  model.fit(ls::from_tensor_slices(data.x, data.y).batch(5),
            {.epochs = epoch + 1, .verbose = 0, .initial_epoch = epoch}, callbacks...);
  return model.evaluate(test_data(), {.verbose = 0});
}

bool same(const ls::Logs& a, const ls::Logs& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

/// An evaluator of the folder `run`, with its own model.
struct Evaluator {
  CountedStrategy strategy;
  decltype(make(strategy)) model = make(strategy);

  auto evaluate(ls::SidecarEvaluatorOptions options, Recorder* recorder = nullptr) {
    options.poll_interval = 5ms;
    options.verbose = 0;
    Recorder own;
    return ls::SidecarEvaluator(model, test_data(), options).start(recorder ? *recorder : own);
  }
};

}  // namespace

TEST_CASE(
    "SidecarEvaluator: evaluates what a trainer saves meanwhile, each once, and ends with it") {
  const TemporaryFolder folder;
  std::vector<ls::Logs> expected;
  std::thread trainer([&] {
    CountedStrategy strategy;
    auto model = make(strategy);
    ls::State progress;
    ls::Checkpoint checkpoint(model, progress);
    ls::CheckpointManager manager(checkpoint, {.directory = folder.path("run")});
    for (int epoch = 0; epoch < 4; ++epoch) {
      std::this_thread::sleep_for(20ms);
      expected.push_back(trained(model, epoch));
      manager.save();
    }
    manager.finish();
  });
  Evaluator evaluator;
  Recorder recorder;
  const auto evaluated = evaluator.evaluate(
      {.checkpoint_dir = folder.path("run"), .results = folder.path("results.csv"), .timeout = 30s},
      &recorder);
  trainer.join();
  REQUIRE(evaluated.size() == 4);
  std::string table = "checkpoint,iterations,loss,accuracy\n";
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(evaluated[i].checkpoint == "ckpt-" + std::to_string(i + 1));
    CHECK(evaluated[i].iterations == 4 * static_cast<std::int64_t>(i + 1));
    CHECK(same(evaluated[i].logs, expected[i]));
    table += ls::concat({evaluated[i].checkpoint, ",", evaluated[i].iterations, ",",
                         expected[i].at("loss"), ",", expected[i].at("accuracy"), "\n"});
  }
  CHECK(file_text(folder.path("results.csv")) == table);
  CHECK(recorder.count("test_begin") == 4);
  CHECK(recorder.count("test_end") == 4);
}

TEST_CASE(
    "SidecarEvaluator: a new process evaluates what has no row yet, overwritten checkpoints "
    "included") {
  const TemporaryFolder folder;
  const ls::SidecarEvaluatorOptions options{.checkpoint_dir = folder.path("run"),
                                            .results = folder.path("results.csv")};
  CountedStrategy strategy;
  auto model = make(strategy);
  Evaluator evaluator;
  // ModelCheckpoint, with one file that is overwritten, says at the end of each fit that training
  // has ended.
  for (int epoch = 0; epoch < 3; ++epoch) {
    const ls::Logs expected =
        trained(model, epoch, ls::ModelCheckpoint({.filepath = folder.path("run/last")}));
    const auto evaluated = evaluator.evaluate(options);
    REQUIRE(evaluated.size() == 1);
    CHECK(evaluated[0].checkpoint == "last");
    CHECK(evaluated[0].iterations == 4 * (epoch + 1));
    CHECK(same(evaluated[0].logs, expected));
    CHECK(evaluator.evaluate(options).empty());
    CHECK(Evaluator().evaluate(options).empty());
  }
  const std::string table = file_text(folder.path("results.csv"));
  CHECK(std::count(table.begin(), table.end(), '\n') == 4);
}

TEST_CASE("SidecarEvaluator: sharded checkpoints are evaluated as those of one file") {
  for (const bool by_manager : {false, true}) {
    CAPTURE(by_manager);
    const TemporaryFolder folder;
    CountedStrategy strategy;
    auto model = make(strategy);
    ls::Checkpoint checkpoint(model);
    ls::CheckpointManager manager(checkpoint, {.directory = folder.path(), .sharded = true});
    std::vector<ls::Logs> expected;
    for (int epoch = 0; epoch < 3; ++epoch) {
      if (by_manager) {
        expected.push_back(trained(model, epoch));
        manager.save();
      } else {
        expected.push_back(trained(
            model, epoch,
            ls::ModelCheckpoint({.filepath = folder.path("{epoch}.ckpt"), .sharded = true})));
      }
    }
    manager.finish();
    const std::string second = by_manager ? "ckpt-2" : "2.ckpt";
    for (const auto& entry : std::filesystem::directory_iterator(folder.path(second)))
      if (entry.path().extension() != ".json") std::filesystem::resize_file(entry.path(), 100);
    Evaluator evaluator;
    const auto evaluated = evaluator.evaluate({.checkpoint_dir = folder.path()});
    REQUIRE(evaluated.size() == 2);
    CHECK(evaluated[0].checkpoint == (by_manager ? "ckpt-1" : "1.ckpt"));
    CHECK(same(evaluated[0].logs, expected[0]));
    CHECK(same(evaluated[1].logs, expected[2]));
    CHECK(evaluated[1].iterations == 12);
    CHECK(evaluator.model.parameters_crc32c() == model.parameters_crc32c());
  }
}

TEST_CASE("SidecarEvaluator: damaged and missing checkpoints and weights alone are passed over") {
  const TemporaryFolder folder;
  CountedStrategy strategy;
  auto model = make(strategy);
  ls::Checkpoint checkpoint(model);
  ls::CheckpointManager manager(checkpoint, {.directory = folder.path()});
  for (int epoch = 0; epoch < 4; ++epoch) {
    (void)trained(model, epoch);
    manager.save();
  }
  manager.finish();
  ls::remove_file(folder.path("ckpt-1"));
  std::filesystem::resize_file(folder.path("ckpt-2"), 100);
  model.save_weights(folder.path("ckpt-3"));
  const auto evaluated = Evaluator().evaluate({.checkpoint_dir = folder.path()});
  REQUIRE(evaluated.size() == 1);
  CHECK(evaluated[0].checkpoint == "ckpt-4");
}

TEST_CASE(
    "SidecarEvaluator: max_evaluations counts existing rows, too; steps limits each evaluation") {
  const TemporaryFolder folder;
  CountedStrategy strategy;
  auto model = make(strategy);
  ls::Checkpoint checkpoint(model);
  ls::CheckpointManager manager(checkpoint, {.directory = folder.path()});
  for (int i = 0; i < 4; ++i) manager.save();
  Evaluator evaluator;
  Recorder recorder;
  ls::SidecarEvaluatorOptions options{.checkpoint_dir = folder.path(),
                                      .results = folder.path("results.csv"),
                                      .steps = 2,
                                      .max_evaluations = 1};
  CHECK(evaluator.evaluate(options, &recorder).size() ==
        1);  // though no file says that training has ended
  CHECK(recorder.count("test_batch_end") == 2);
  options.max_evaluations = 3;
  CHECK(evaluator.evaluate(options).size() == 2);
  CHECK(evaluator.evaluate(options).empty());
}

TEST_CASE("SidecarEvaluator: gives up when no checkpoint comes, and says what it waited for") {
  const TemporaryFolder folder;
  Evaluator evaluator;
  const std::string message = message_of<ls::Error>(
      [&] { (void)evaluator.evaluate({.checkpoint_dir = folder.path("run"), .timeout = 50ms}); });
  CHECK(contains(message, "no new checkpoint in '" + folder.path("run") + "' for 0.05 seconds"));
  // A trainer that was killed has not ended, whatever it has saved.
  CountedStrategy strategy;
  auto model = make(strategy);
  ls::Checkpoint checkpoint(model);
  ls::CheckpointManager(checkpoint, {.directory = folder.path("run")}).save();
  CHECK(contains(message_of<ls::Error>([&] {
                   (void)evaluator.evaluate(
                       {.checkpoint_dir = folder.path("run"), .timeout = 50ms});
                 }),
                 "no file there says that training has ended"));
}

TEST_CASE("SidecarEvaluator: options that cannot work are errors that say why") {
  const TemporaryFolder folder;
  Evaluator evaluator;
  const auto refusal = [&](ls::SidecarEvaluatorOptions options) {
    return message_of<ls::ConfigurationError>(
        [&] { ls::SidecarEvaluator(evaluator.model, test_data(), options); });
  };
  CHECK(contains(refusal({}), "checkpoint_dir is empty"));
  CHECK(contains(refusal({.checkpoint_dir = "x", .max_evaluations = 0}),
                 "max_evaluations must be at least 1, got 0"));
  CHECK(contains(refusal({.checkpoint_dir = "x", .poll_interval = 0ms}),
                 "poll_interval must be at least 1 ms, got 0"));
  CHECK(contains(refusal({.checkpoint_dir = "x", .timeout = 1ms}), "got 1 and 1000 ms"));
  evaluator.strategy.workers = 2;
  CHECK(contains(refusal({.checkpoint_dir = "x"}), "OneDeviceStrategy or a MirroredStrategy"));
  evaluator.strategy.workers = 1;

  CountedStrategy strategy;
  auto other = make(strategy, 0.9);
  ls::Checkpoint checkpoint(other);
  ls::CheckpointManager(checkpoint, {.directory = folder.path()}).save();
  CHECK(contains(message_of<ls::ConfigurationError>(
                     [&] { (void)evaluator.evaluate({.checkpoint_dir = folder.path()}); }),
                 "SidecarEvaluator '" + folder.path("ckpt-1") +
                     "': restore: the saved state has 'optimizer: "));
}

using ls::detail::EvaluationResults;

namespace {

ls::CheckpointEvaluation evaluation(const std::string& name, std::int64_t iterations, double loss) {
  ls::CheckpointEvaluation made{.checkpoint = name, .iterations = iterations, .logs = {}};
  made.logs.set("loss", loss);
  made.logs.set("accuracy", 0.5);
  return made;
}

}  // namespace

TEST_CASE("evaluation results: rows under a header, which the next object continues") {
  const TemporaryFolder folder;
  const std::string path = folder.path("made/results.csv");
  {
    EvaluationResults results(path);
    CHECK(results.size() == 0);
    results.append(evaluation("ckpt-1", 70, 0.25));
    CHECK(file_text(path) == "checkpoint,iterations,loss,accuracy\nckpt-1,70,0.25,0.5\n");
  }
  EvaluationResults results(path);
  results.append(evaluation("a,\"b\"", 140, std::numeric_limits<double>::quiet_NaN()));
  CHECK(file_text(path) ==
        "checkpoint,iterations,loss,accuracy\nckpt-1,70,0.25,0.5\n\"a,\"\"b\"\"\",140,nan,0.5\n");
  CHECK(results.size() == 2);
  for (const EvaluationResults& same : {results, EvaluationResults(path)}) {
    CHECK(same.size() == 2);
    CHECK(same.contains("ckpt-1", 70));
    CHECK(same.contains("a,\"b\"", 140));
    CHECK_FALSE(same.contains("ckpt-1", 7));
    CHECK_FALSE(same.contains("ckpt-1", 140));
    CHECK_FALSE(same.contains("kpt-1", 70));
    CHECK_FALSE(same.contains("checkpoint", 70));
  }
}

TEST_CASE("evaluation results: without a file they are remembered all the same") {
  EvaluationResults results("");
  results.append(evaluation("ckpt-1", 70, 0.25));
  CHECK(results.contains("ckpt-1", 70));
  CHECK(results.size() == 1);
}

TEST_CASE("evaluation results: a file that is something else is refused, and stays as it is") {
  const TemporaryFolder folder;
  for (const std::string text :
       {"hello\n", "checkpoint,iterations,loss\nckpt-1,70,0.2", "checkpoint"}) {
    CAPTURE(text);
    std::ofstream(folder.path("results.csv")) << text;
    CHECK(
        contains(message_of<ls::DataError>([&] { EvaluationResults{folder.path("results.csv")}; }),
                 "results.csv' is no table of evaluations"));
  }
  const std::string others = "checkpoint,iterations,loss\nckpt-1,70,0.25\n";
  std::ofstream(folder.path("results.csv")) << others;
  EvaluationResults results(folder.path("results.csv"));
  CHECK(contains(
      message_of<ls::ConfigurationError>([&] { results.append(evaluation("ckpt-2", 140, 0.2)); }),
      "has the columns 'checkpoint,iterations,loss', this program gives "
      "'checkpoint,iterations,loss,accuracy'"));
  CHECK(file_text(folder.path("results.csv")) == others);
  CHECK_THROWS_AS(EvaluationResults{folder.path()}, ls::Error);
}

// CheckpointManager with a model; which files are kept is tested in
// tests/checkpoint/checkpoint_folder.test.cpp.
#include "lockstep/saving/checkpoint.hpp"
#include "lockstep/callbacks/model_checkpoint.hpp"
#include "lockstep/checkpoint/checkpoint_folder.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/optimizers/sgd.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

const ls::SparseCategoricalCrossentropy loss{.from_logits = true};
const ls::SGD sgd{.learning_rate = 0.2, .momentum = 0.5};

ls::AnyDataset batches() {
  const TinyData data(20);
  return ls::AnyDataset(ls::from_tensor_slices(data.x, data.y).shuffle(20).batch(5));
}

auto make(WorkerStrategy& strategy, std::uint64_t seed) {
  return ls::compile<TinyNet>(strategy, {.seed = seed}, loss, sgd);
}

/// An object of the program's own.
struct Counter {
  int count = 0;
  void save(ls::State& state) const { state.put("count", count); }
  void restore(const ls::State& state) { count = state.get<int>("count"); }
};

void check_none(const std::vector<std::string>& failures) {
  for (const std::string& failure : failures) CHECK(failure.empty());
}

}  // namespace

static_assert(ls::Restorable<Counter>);
static_assert(ls::Restorable<ls::State>);
static_assert(!ls::Restorable<int>);

TEST_CASE(
    "Checkpoint: the model and the program's own objects come back, on one worker and on two") {
  for (const int count : {1, 2}) {
    const TemporaryFolder folder;
    check_none(run_workers(count, [&](WorkerStrategy& strategy) {
      const std::string path = folder.path(std::to_string(strategy.worker_index()));
      auto model = make(strategy, 1);
      model.fit(batches(), {.epochs = 2, .verbose = 0});
      Counter counter{7};
      ls::State progress;
      progress.put("epoch", 2);
      ls::Checkpoint checkpoint(model, counter, progress);
      checkpoint.save(path);
      CHECK(std::filesystem::exists(path) == strategy.is_chief());

      auto other = make(strategy, 2);
      Counter other_counter;
      ls::State other_progress;
      ls::Checkpoint(other, other_counter, other_progress).restore(path);
      CHECK(other.parameters_crc32c() == model.parameters_crc32c());
      CHECK(other.iterations() == 8);
      CHECK(other_counter.count == 7);
      CHECK(other_progress == progress);
      CHECK(contains(message_of<ls::ConfigurationError>(
                         [&] { ls::Checkpoint(other, other_counter).restore(path); }),
                     "states of 2 objects beside the model, this checkpoint has 1"));
    }));
  }
}

TEST_CASE("Checkpoint: takes a file of ModelCheckpoint or Model::save, or says why not") {
  const TemporaryFolder folder;
  check_none(run_workers(1, [&](WorkerStrategy& strategy) {
    auto model = make(strategy, 1);
    const std::string by_callback = folder.path("by_callback"), by_model = folder.path("by_model");
    ls::ModelCheckpoint callback({.filepath = by_callback});
    model.fit(batches(), {.epochs = 1, .verbose = 0}, callback);
    model.save(by_model);
    for (const std::string& path : {by_callback, by_model}) {
      CAPTURE(path);
      auto other = make(strategy, 2);
      ls::Checkpoint(other).restore(path);
      CHECK(other.parameters_crc32c() == model.parameters_crc32c());
      CHECK(other.iterations() == 4);
      Counter counter{7};
      const std::string message =
          message_of<ls::ConfigurationError>([&] { ls::Checkpoint(other, counter).restore(path); });
      CHECK(contains(message, path));
      CHECK(contains(message, "the file has a model alone"));
      CHECK(contains(message, "this checkpoint has 1 objects beside its model"));
      CHECK(counter.count == 7);
    }
  }));
}

TEST_SUITE_BEGIN("Keras: checkpoints");

TEST_CASE(
    "CheckpointManager: only the chief writes; restore_or_initialize gives all workers its newest "
    "whole checkpoint, or nothing") {
  const TemporaryFolder folder;
  check_none(run_workers(2, [&](WorkerStrategy& strategy) {
    const std::string directory = folder.path(std::to_string(strategy.worker_index()));
    auto model = make(strategy, 1);
    ls::Checkpoint checkpoint(model);
    ls::CheckpointManager manager(checkpoint, {.directory = directory, .max_to_keep = 2});
    CHECK(manager.restore_or_initialize() == std::nullopt);
    for (int epoch = 0; epoch < 3; ++epoch) {
      model.fit(batches(), {.epochs = epoch + 1, .verbose = 0, .initial_epoch = epoch});
      const auto path = manager.save();
      CHECK(path.has_value() == strategy.is_chief());
    }
    CHECK(manager.checkpoints().size() == (strategy.is_chief() ? 2 : 0));
    CHECK(std::filesystem::exists(directory) == strategy.is_chief());

    auto other = make(strategy, 2);
    ls::Checkpoint other_checkpoint(other);
    ls::CheckpointManager other_manager(other_checkpoint, {.directory = directory});
    CHECK(other_manager.restore_or_initialize() == folder.path("0/ckpt-3"));
    CHECK(other.parameters_crc32c() == model.parameters_crc32c());
    CHECK(other.iterations() == 12);

    if (strategy.is_chief()) std::filesystem::resize_file(folder.path("0/ckpt-3"), 100);
    CHECK(other_manager.restore_or_initialize() == folder.path("0/ckpt-2"));
    CHECK(other.iterations() == 8);
  }));
}

TEST_CASE(
    "CheckpointManager: checkpoint_interval is counted in updates, from the restored checkpoint "
    "on") {
  const TemporaryFolder folder;
  check_none(run_workers(1, [&](WorkerStrategy& strategy) {
    auto model = make(strategy, 1);
    ls::Checkpoint checkpoint(model);
    const ls::CheckpointManagerOptions options{.directory = folder.path(),
                                               .checkpoint_interval = 8};
    ls::CheckpointManager manager(checkpoint, options);
    const auto saved_after_an_epoch = [&](auto& by) {
      model.fit(batches(), {.epochs = 1, .verbose = 0});  // four updates
      return by.save().has_value();
    };
    CHECK(saved_after_an_epoch(manager));
    CHECK_FALSE(saved_after_an_epoch(manager));
    CHECK(saved_after_an_epoch(manager));
    ls::CheckpointManager again(checkpoint, options);
    CHECK(again.restore_or_initialize().has_value());
    CHECK_FALSE(saved_after_an_epoch(again));
    CHECK(again.save(50) == std::nullopt);
    CHECK(saved_after_an_epoch(again));
  }));
}

TEST_CASE(
    "CheckpointManager: sharded, all workers write each checkpoint, and go on from the newest that "
    "all can read") {
  const TemporaryFolder folder;
  check_none(run_workers(2, [&](WorkerStrategy& strategy) {
    const auto barrier = [&] {
      strategy.run([](auto& replica) { replica.collective().barrier(); });
    };
    auto model = make(strategy, 1);
    Counter counter;
    ls::Checkpoint checkpoint(model, counter);
    const ls::CheckpointManagerOptions options{
        .directory = folder.path(), .max_to_keep = 3, .checkpoint_interval = 4, .sharded = true};
    ls::CheckpointManager manager(checkpoint, options);
    CHECK(manager.restore_or_initialize() == std::nullopt);
    std::vector<std::uint32_t> after;
    for (int epoch = 0; epoch < 4; ++epoch) {
      model.fit(batches(), {.epochs = epoch + 1, .verbose = 0, .initial_epoch = epoch});
      ++counter.count;
      CHECK(manager.save().has_value() == strategy.is_chief());
      CHECK(manager.save() == std::nullopt);  // not due
      after.push_back(model.parameters_crc32c());
    }
    barrier();
    CHECK_FALSE(std::filesystem::exists(folder.path("ckpt-1")));
    CHECK(std::filesystem::exists(folder.path("ckpt-2/manifest.json")));
    CHECK(ls::latest_checkpoint(folder.path()) == folder.path("ckpt-4"));

    const auto restored = [&] {
      auto other = make(strategy, 2);
      Counter other_counter;
      ls::Checkpoint into(other, other_counter);
      ls::CheckpointManager from(into, options);
      const auto path = from.restore_or_initialize();
      REQUIRE(path);
      CHECK(path->back() - '0' == other_counter.count);
      CHECK(other.iterations() == 4 * other_counter.count);
      CHECK(other.parameters_crc32c() ==
            after.at(static_cast<std::size_t>(other_counter.count - 1)));
      return other_counter.count;
    };
    CHECK(restored() == 4);
    barrier();
    const auto shards = [&](const std::string& name) {
      std::vector<std::filesystem::path> found;
      for (const auto& entry : std::filesystem::directory_iterator(folder.path(name)))
        if (entry.path().filename().string().starts_with("shard-")) found.push_back(entry.path());
      return found;
    };
    // Its size is what it was, which is all that the chief looks at first.
    if (strategy.is_chief())
      for (const auto& path : shards("ckpt-4")) {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(-1, std::ios::end);
        file.put('!');
      }
    barrier();
    CHECK(restored() == 3);
    barrier();
    if (strategy.is_chief()) std::filesystem::remove(shards("ckpt-3").front());
    barrier();
    CHECK(restored() == 2);
    barrier();
    if (strategy.is_chief()) CHECK(ls::latest_checkpoint(folder.path()) == folder.path("ckpt-2"));
    ls::CheckpointManager at_once(checkpoint, {.directory = folder.path(), .sharded = true});
    const auto failure = message_of<ls::DataError>([&] { (void)at_once.save(-1); });  // on both
    CHECK(contains(failure, "the number of a checkpoint must be at least 0"));
  }));
}

TEST_CASE("CheckpointManager: the chief's folder says whether training has ended") {
  const TemporaryFolder folder;
  check_none(run_workers(2, [&](WorkerStrategy& strategy) {
    const std::string directory = folder.path(std::to_string(strategy.worker_index()));
    auto model = make(strategy, 1);
    ls::Checkpoint checkpoint(model);
    ls::CheckpointManager manager(checkpoint, {.directory = directory});
    manager.save();
    CHECK_FALSE(ls::training_has_ended(directory));
    manager.finish();
    CHECK(ls::training_has_ended(directory) == strategy.is_chief());
    ls::CheckpointManager other(checkpoint, {.directory = directory});
    CHECK(ls::training_has_ended(directory) == strategy.is_chief());
    CHECK(other.restore_or_initialize().has_value());
    CHECK_FALSE(ls::training_has_ended(directory));
    other.finish();
    other.save();
    CHECK_FALSE(ls::training_has_ended(directory));
  }));
}

TEST_CASE(
    "CheckpointManager: a checkpoint of another program is an error on every worker, and not "
    "skipped") {
  const TemporaryFolder folder;
  check_none(run_workers(2, [&](WorkerStrategy& strategy) {
    auto model = make(strategy, 1);
    ls::Checkpoint checkpoint(model);
    ls::CheckpointManager(checkpoint, {.directory = folder.path()}).save();
    auto other = ls::compile<TinyNet>(strategy, {.seed = 1}, loss, ls::SGD{.learning_rate = 0.1});
    ls::Checkpoint other_checkpoint(other);
    ls::CheckpointManager manager(other_checkpoint, {.directory = folder.path()});
    CHECK(
        contains(message_of<ls::ConfigurationError>([&] { (void)manager.restore_or_initialize(); }),
                 "ckpt-1': restore: the saved state has 'optimizer: "));
    CHECK_THROWS_AS((ls::CheckpointManager(checkpoint, {.directory = ""})), ls::ConfigurationError);
  }));
}

TEST_CASE("CheckpointManager: an index that the chief cannot read is an error that names it") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("checkpoint"));
  check_none(run_workers(1, [&](WorkerStrategy& strategy) {
    auto model = make(strategy, 1);
    ls::Checkpoint checkpoint(model);
    CHECK(contains(message_of<ls::Error>(
                       [&] { ls::CheckpointManager(checkpoint, {.directory = folder.path()}); }),
                   folder.path("checkpoint")));
  }));
}

TEST_SUITE_END();

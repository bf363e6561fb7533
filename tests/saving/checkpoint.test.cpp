#include "lockstep/saving/checkpoint.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/callbacks/model_checkpoint.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/optimizers/sgd.hpp"
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

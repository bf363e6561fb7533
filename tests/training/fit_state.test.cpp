#include "lockstep/training/fit_state.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "support/model_testing.hpp"
#include "support/tiny_trainer.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {
const RowDataset& data() {
  static const RowDataset rows(TinyData(20), 5);
  return rows;
}
}  // namespace

TEST_CASE(
    "FitState: the memory of a snapshot serves for the next one, but not that of another "
    "model's") {
  TinyTrainer trainer({.replicas = 2, .seed = 5, .learning_rate = 0.25, .momentum = 0.5});
  Recorder recorder;
  recorder.record_completions = true;
  ls::TrainingState reused;
  recorder.at_batch_complete = [&](ls::Training& training, std::int64_t) {
    const std::byte* const memory =
        reused.parameters.empty() ? nullptr : reused.parameters[0].bytes.data();
    reused = training.state(std::move(reused));
    CHECK(reused == training.state());
    if (memory != nullptr) CHECK(reused.parameters[0].bytes.data() == memory);
    ls::TrainingState other = reused;
    other.signature = "another model's";
    other.slots.resize(9);
    CHECK(training.state(std::move(other)) == reused);
  };
  trainer.fit(data(), {.epochs = 1}, &recorder);
  CHECK_FALSE(reused.parameters.empty());
}

TEST_CASE("FitState: the state says where training is, in on_..._complete") {
  TinyTrainer trainer({.replicas = 2, .seed = 5, .learning_rate = 0.25, .momentum = 0.5});
  Recorder recorder;
  recorder.record_completions = true;
  std::vector<ls::TrainingState> states;
  recorder.at_batch_complete = [&](ls::Training& training, std::int64_t) {
    states.push_back(training.state());
  };
  recorder.at_epoch_complete = [&](ls::Training& training, int) {
    states.push_back(training.state());
  };
  recorder.at_save = [](ls::State& state) { state.put("mine", 7); };
  trainer.fit(data(), {.epochs = 2}, &recorder);
  REQUIRE(states.size() == 10);
  const ls::TrainingState& step = states[6];  // after the second step of the second epoch
  CHECK(step.epoch == 1);
  CHECK(step.step == 2);
  CHECK(step.data_iteration == 1);
  CHECK(step.data_position == 2);
  CHECK(step.iterations == 6);
  CHECK_FALSE(step.running.empty());
  const ls::TrainingState& epoch = states[4];
  CHECK(epoch.epoch == 1);
  CHECK(epoch.step == 0);
  CHECK(epoch.data_iteration == 1);
  CHECK(epoch.data_position == 0);
  CHECK(epoch.running.empty());
  CHECK(epoch.seed == 5);
  CHECK(epoch.learning_rate == 0.25);
  CHECK(epoch.world_size == 2);
  CHECK(epoch.scalar == "float32");
  CHECK(contains(epoch.signature, "optimizer: SGD(learning_rate=0.25, momentum=0.5"));
  CHECK(epoch.parameters.size() == 4);
  CHECK(epoch.slots.size() == 4);
  CHECK(epoch.callbacks.at(0).get<int>("mine") == 7);

  const auto weights = trainer.get_weights();
  for (std::size_t i = 0; i < 4; ++i) {
    const ls::SavedArray& array = states.back().parameters[i];
    CHECK(array.name == weights[i].name);
    CHECK(std::memcmp(array.bytes.data(), weights[i].values.data(), array.bytes.size()) == 0);
  }
}

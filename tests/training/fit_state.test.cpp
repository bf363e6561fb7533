#include "lockstep/training/fit_state.hpp"
#include "lockstep/data/tensor_slices.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
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

using ls::detail::SavedData;

namespace {

constexpr std::array<std::size_t, 2> square{2, 2};

SavedData of(const ls::AnyDataset& train, const ls::FitOptions& options = {}, int workers = 1) {
  return SavedData::of(train, ls::detail::plan_fit(train, options, {.input = square, .targets = 1},
                                                   {.num_workers = workers}));
}

ls::AnyDataset slices(int samples, std::uint64_t seed = 1, std::int64_t batch = 5) {
  const TinyData data(samples, seed);
  return ls::from_tensor_slices(data.x, data.y).batch(batch);
}

ls::TrainingState saved_by(const SavedData& data) {
  ls::TrainingState saved;
  saved.seed = 7;
  saved.global_batch = 5;
  data.save(saved);
  return saved;
}

std::string differences(const ls::TrainingState& saved, const SavedData& mine,
                        const std::optional<std::uint64_t>& seed) {
  return ls::detail::saved_differences(saved, mine, seed).text;
}

}  // namespace

TEST_CASE("saved data: the source's samples, their checksum, and the steps of an epoch") {
  const SavedData data = of(slices(22));
  CHECK(data.samples == 22);
  CHECK(data.checksum == slices(22).fingerprint().checksum);
  CHECK(data.checksum != of(slices(22, 2)).checksum);
  CHECK(data.epoch_steps == 5);
  CHECK(data.batch == 5);
  const TinyData tiny(22);
  const auto endless = ls::from_tensor_slices(tiny.x, tiny.y).repeat().batch(5);
  CHECK(of(endless, {.steps_per_epoch = 7}).epoch_steps == 7);
  CHECK(of(endless, {.steps_per_epoch = 7}).samples == 22);
}

TEST_CASE("saved data: what is not known is 0") {
  RowDataset rows(TinyData(22), 5);
  rows.reported_cardinality = ls::unknown_cardinality;
  const SavedData data = of(rows);
  CHECK(data.samples == 0);
  CHECK(data.checksum == 0);
  CHECK(data.epoch_steps == 0);
  CHECK(data.batch == 0);
  // Where each worker may have data of its own, those of the chief say nothing.
  const TinyData tiny(22);
  const auto own = ls::from_tensor_slices(tiny.x, tiny.y)
                       .batch(5)
                       .with_options({.auto_shard_policy = ls::AutoShardPolicy::off});
  CHECK(of(own, {}, 2).samples == 0);
  CHECK(of(own, {}, 1).samples == 22);
}

TEST_CASE("saved data: each difference is named with both values") {
  const ls::TrainingState saved = saved_by(of(slices(22)));
  CHECK(differences(saved, of(slices(22)), std::nullopt).empty());
  CHECK(differences(saved, of(slices(22)), 7).empty());
  CHECK(differences(saved, of(slices(22)), 9) == "the seed 7 (this program has 9)");
  CHECK(differences(saved, of(slices(40)), 9) ==
        "the seed 7 (this program has 9), 22 samples of training data (this program has 40), 5 "
        "steps an epoch (this program has 8)");
  const std::string contents = differences(saved, of(slices(22, 2)), std::nullopt);
  CHECK(contents.starts_with("training data with the checksum "));
  CHECK(contents.size() == std::string("training data with the checksum 12345678 (this program has "
                                       "12345678)")
                               .size());
}

TEST_CASE("saved data: what one side does not know, and other batches, are no difference") {
  const ls::TrainingState saved = saved_by(of(slices(22)));
  CHECK(differences(saved, SavedData{}, std::nullopt).empty());
  CHECK(differences(ls::TrainingState{}, of(slices(22)), std::nullopt).empty());
  CHECK(differences(saved, of(slices(22, 1, 2)), std::nullopt).empty());
}

TEST_CASE("saved data: another pipeline, and other class weights") {
  const TinyData tiny(22);
  const auto slices_of = [&] { return ls::from_tensor_slices(tiny.x, tiny.y); };
  const SavedData data = of(slices_of().shuffle(22, 3).batch(5));
  const ls::TrainingState saved = saved_by(data);
  CHECK(saved.pipeline == "from_tensor_slices -> shuffle(22, seed 3) -> batch(5)");
  const auto with = [&](const ls::AnyDataset& train, const ls::FitOptions& options = {}) {
    return ls::detail::saved_differences(saved, of(train, options), std::nullopt);
  };
  CHECK(with(slices_of().shuffle(22, 3).batch(5)).text.empty());
  CHECK(with(slices_of().shuffle(22, 3).batch(2)).text.empty());  // the same order
  const auto other = with(slices_of().shuffle(22, 4).batch(5));
  CHECK(other.text ==
        "the pipeline 'from_tensor_slices -> shuffle(22, seed 3) -> batch(5)' (this program has "
        "'from_tensor_slices -> shuffle(22, seed 4) -> batch(5)')");
  CHECK(other.has_other_order);
  const auto weighted = with(slices_of().shuffle(22, 3).batch(5), {.class_weight = {{1, 2.5}}});
  CHECK(weighted.text == "the class weights none (this program has 1, 2.5)");
  CHECK_FALSE(weighted.has_other_order);
  CHECK(with(slices(40)).has_other_order);
}

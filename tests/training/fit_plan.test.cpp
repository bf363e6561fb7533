#include "lockstep/training/fit_plan.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/joined_stages.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/step/status_block.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "support/model_testing.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

constexpr std::array<std::size_t, 2> square{2, 2};
constexpr ls::detail::DataSizes sizes{.input = square, .targets = 1};

/// Batches of 2 out of `samples`, or with another cardinality.
RowDataset rows(int samples, std::optional<std::int64_t> cardinality = {}) {
  RowDataset data(TinyData(samples), 2);
  if (cardinality) data.reported_cardinality = *cardinality;
  return data;
}

ls::detail::FitPlan plan(const ls::AnyDataset& train, const ls::FitOptions& options,
                         int num_workers = 1) {
  return ls::detail::plan_fit(train, options, sizes, {.num_workers = num_workers});
}

std::string refused(const ls::AnyDataset& train, const ls::FitOptions& options) {
  return message_of<ls::ConfigurationError>([&] { (void)plan(train, options); });
}
std::string bad_data(const ls::AnyDataset& train, const ls::FitOptions& options) {
  return message_of<ls::DataError>([&] { (void)plan(train, options); });
}

}  // namespace

TEST_CASE("plan_fit: the steps of an epoch, and whether each epoch begins a pass of its own") {
  const auto known = plan(rows(10), {});
  CHECK(known.new_pass_each_epoch);
  CHECK(known.target == 5);
  const auto unknown = plan(rows(10, ls::unknown_cardinality), {});
  CHECK(unknown.new_pass_each_epoch);
  CHECK_FALSE(unknown.target.has_value());
  const auto endless = plan(rows(10, ls::infinite_cardinality), {.steps_per_epoch = 7});
  CHECK_FALSE(endless.new_pass_each_epoch);
  CHECK(endless.target == 7);
  const auto part = plan(rows(10), {.steps_per_epoch = 2});
  CHECK_FALSE(part.new_pass_each_epoch);
  CHECK(part.target == 2);
  CHECK(plan(rows(10), {.steps_per_epoch = 5}).new_pass_each_epoch);
}

TEST_CASE("plan_fit: a pass has more steps when every worker sees all of each batch") {
  struct Off : RowDataset {
    using RowDataset::RowDataset;
    [[nodiscard]] ls::AutoShardPolicy auto_shard_policy() const { return ls::AutoShardPolicy::off; }
  };
  const Off data(TinyData(10), 2);
  const auto decided = [&](std::optional<std::int64_t> steps_per_epoch) {
    auto plan_of_one = plan(data, {.steps_per_epoch = steps_per_epoch}, 3);
    CHECK(plan_of_one.steps == 15);
    CHECK(plan_of_one.steps_may_differ);
    plan_of_one.decide(15, steps_per_epoch);
    return plan_of_one;
  };
  CHECK(decided({}).target == 15);
  CHECK(decided(15).new_pass_each_epoch);
  CHECK_FALSE(decided(5).new_pass_each_epoch);
  CHECK(plan(rows(10), {}, 3).target == 5);
}

TEST_CASE("longest_pass: the most steps that a worker has; not known where one does not know") {
  const auto longest = [](std::vector<std::int64_t> mine) {
    std::vector<std::int64_t> results(mine.size());
    const auto failures = run_workers(static_cast<int>(mine.size()), [&](WorkerStrategy& strategy) {
      const auto worker = static_cast<std::size_t>(strategy.worker_index());
      strategy.run([&](auto& replica) {
        results[worker] = ls::detail::longest_pass(replica.collective(), mine[worker]);
      });
    });
    for (const std::string& failure : failures) CHECK(failure == "");
    for (const std::int64_t result : results) CHECK(result == results[0]);
    return results[0];
  };
  CHECK(longest({9, 11, 0}) == 11);
  CHECK(longest({0, 0}) == 0);
  CHECK(longest({9, ls::unknown_cardinality}) == ls::unknown_cardinality);
  CHECK(longest({ls::infinite_cardinality, 3, ls::unknown_cardinality}) ==
        ls::infinite_cardinality);
}

TEST_CASE("plan_fit: options that make no sense are refused") {
  CHECK(contains(refused(rows(10), {.epochs = 0}), "fit: epochs must be at least 1, got 0"));
  CHECK(contains(refused(rows(10), {.epochs = -3}), "got -3"));
  CHECK(contains(refused(rows(10), {.initial_epoch = -1}),
                 "initial_epoch must be at least 0, got -1"));
  CHECK(contains(refused(rows(10), {.steps_per_epoch = 0}),
                 "steps_per_epoch must be at least 1, got 0"));
  CHECK(contains(refused(rows(10), {.steps_per_epoch = -1}), "got -1"));
  CHECK(contains(refused(rows(10), {.validation_data = rows(10), .validation_steps = 0}),
                 "validation_steps must be at least 1, got 0"));
  CHECK(contains(refused(rows(10, ls::infinite_cardinality), {}),
                 "repeat forever: give .steps_per_epoch"));
  CHECK(contains(refused(rows(10), {.validation_data = rows(10, ls::infinite_cardinality)}),
                 "repeat forever: give .validation_steps"));
  CHECK(contains(refused(ls::AnyDataset(), {}), "holds no dataset"));
}

TEST_CASE("plan_fit: empty data are refused") {
  CHECK(contains(bad_data(rows(0), {}), "training data is empty"));
  CHECK(contains(bad_data(rows(0), {.steps_per_epoch = 3}), "training data is empty"));
  CHECK(contains(bad_data(rows(10), {.validation_data = rows(0)}), "validation_data is empty"));
}

TEST_CASE("plan_fit: a batch that is larger than the data, without the remainder, is named") {
  const TinyData data(10);
  const auto samples = ls::from_tensor_slices(data.x, data.y);
  const std::string why =
      " is empty: batch(64, drop_remainder) leaves out an incomplete batch, and the source "
      "has 10 samples: make the batch smaller, or keep the remainder";
  CHECK(bad_data(samples.batch(64, true), {}) == "fit: the training data" + why);
  CHECK(bad_data(samples.batch(5), {.validation_data = samples.batch(64, true)}) ==
        "fit: validation_data" + why);
}

TEST_CASE("mixed_parts: parts of one source behind a shuffle that draws new orders") {
  const TinyData data(10), other(10, 2);
  const auto samples = ls::from_tensor_slices(data.x, data.y);
  const auto shuffled = samples.shuffle(10);
  const auto mixed = [](const auto& train, const auto& validation) {
    return ls::detail::mixed_parts(train.batch(2), validation.batch(2));
  };
  CHECK(contains(mixed(shuffled.skip(3), shuffled.take(3)),
                 "fit: the training data (from_tensor_slices -> shuffle(10) -> skip(3) -> "
                 "batch(2)) and the validation_data (from_tensor_slices -> shuffle(10) -> take(3) "
                 "-> batch(2)) are parts of one source"));
  CHECK(mixed(samples.skip(3).shuffle(7), samples.take(3)).empty());
  CHECK(
      mixed(samples.shuffle(10, 1, false).skip(3), samples.shuffle(10, 1, false).take(3)).empty());
  CHECK(mixed(shuffled.take(3), ls::from_tensor_slices(other.x, other.y).shuffle(10).take(3))
            .empty());
}

TEST_CASE("plan_fit: data of other sizes than the model's are refused, with both sizes") {
  const std::array<std::size_t, 2> image{28, 28};
  const auto message = [&](std::span<const std::size_t> input, std::size_t targets) {
    return message_of<ls::DataError>([&] {
      ls::detail::check_sizes("here", rows(10),
                              {.input = input, .targets = targets, .loss = "mean_squared_error"});
    });
  };
  CHECK(message(image, 1) ==
        "here: the model's Input is (28, 28), the dataset's samples are (4): give samples of that "
        "shape, or another "
        "Input");
  CHECK(message(square, 10) ==
        "here: the loss mean_squared_error expects targets of (10), the dataset's are of (1)");
  CHECK(message(square, 0) == "NO EXCEPTION");  // predict
  CHECK(contains(bad_data(rows(10), {.validation_data = rows(0)}), "fit: validation_data"));
}

TEST_CASE(
    "check_sizes: samples are compared by their extents, and the message says how to mend them") {
  const auto message = [](std::vector<std::size_t> shape, std::vector<std::size_t> input) {
    std::size_t size = 1;
    for (const std::size_t extent : shape) size *= extent;
    shape.insert(shape.begin(), 1);
    const ls::AnyDataset data(
        ls::from_tensor_slices(ls::Tensor<float>(std::vector<float>(size), shape)).batch(1));
    return message_of<ls::DataError>(
        [&] { ls::detail::check_sizes("fit", data, {.input = input}); });
  };
  const std::string fits = "NO EXCEPTION";
  CHECK(message({32, 32, 3}, {32, 32, 3}) == fits);
  CHECK(message({3072}, {32, 32, 3}) == fits);
  CHECK(message({32, 32, 3}, {3072}) == fits);
  CHECK(message({28, 28}, {28, 28, 1}) == fits);
  CHECK(message({1, 28, 28}, {28, 28}) == fits);
  CHECK(message({3, 32, 32}, {32, 32, 3}) ==
        "fit: the model's Input is (32, 32, 3), the dataset's samples are (3, 32, 32): their "
        "channels come first; put "
        "them last, with images.channels_last() for a Tensor or x.transpose(0, 2, 3, 1) in NumPy");
  CHECK(contains(message({14, 56}, {28, 28}), "are (14, 56): as many elements in another order"));
  CHECK(contains(message({}, {28, 28}),
                 "the dataset's samples are (1): give samples of that shape; of a std::vector each "
                 "number is one: write ls::Tensor<float>(values, {rows, 28, 28})"));
}

TEST_CASE("check_sizes: zip of two inputs, the second of which became targets") {
  const auto message = [](std::size_t samples, std::size_t targets, std::size_t wanted) {
    const auto rows = [](std::size_t size) {
      return ls::from_tensor_slices(ls::Tensor<float>(std::vector<float>(2 * size), {2, size}));
    };
    const ls::AnyDataset data(zip(rows(samples), rows(targets)).batch(2));
    const std::array<std::size_t, 1> input{wanted};
    return message_of<ls::DataError>(
        [&] { ls::detail::check_sizes("fit", data, {.input = input, .targets = 1}); });
  };
  CHECK(message(3, 2, 5) ==
        "fit: the model's Input is (5), the dataset's samples are (3): give samples of that shape, "
        "or another Input; several inputs: zip(inputs(a, b), targets)");
  const std::string advice = "several inputs: zip(inputs(a, b), targets)";
  CHECK(contains(message(1, 1, 2), advice));
  CHECK(contains(message(3, 3, 9), advice));         // two of three
  CHECK_FALSE(contains(message(3, 1, 5), advice));   // features and a label
  CHECK_FALSE(contains(message(1, 1, 13), advice));  // a vector of numbers, and labels
  CHECK_FALSE(contains(message(5, 5, 3), advice));   // what is too large is no part
}

TEST_CASE("check_sizes: targets of another size; the loss says which other one is meant") {
  constexpr std::array<std::size_t, 1> three{3};
  const auto message = [&](std::size_t targets) {
    std::vector<float> x(6), y(2 * targets);
    const ls::Tensor<float> samples(x, {2, 3});
    const ls::AnyDataset data =
        targets == 0
            ? ls::AnyDataset(ls::from_tensor_slices(samples).batch(1))
            : ls::AnyDataset(
                  ls::from_tensor_slices(samples, ls::Tensor<float>(y, {2, targets})).batch(1));
    return message_of<ls::DataError>([&] {
      ls::detail::check_sizes("fit", data,
                              {.input = three,
                               .targets = 1,
                               .loss = ls::SparseCategoricalCrossentropy::name,
                               .target_advice = ls::SparseCategoricalCrossentropy::target_advice});
    });
  };
  CHECK(message(10) ==
        "fit: the loss sparse_categorical_crossentropy expects targets of (1), the dataset's are "
        "of (10): one-hot "
        "targets are for CategoricalCrossentropy");
  CHECK(contains(message(0), "expects targets of (1), the dataset has no targets"));
}

TEST_CASE("fit_signature: equal for equal options, and a line for each that must be equal") {
  const auto differs = [](const ls::FitOptions& options) {
    return ls::detail::fit_signature(options) != ls::detail::fit_signature({});
  };
  CHECK_FALSE(differs({}));
  CHECK_FALSE(differs({.verbose = 0}));  // the others may be silent
  CHECK(differs({.epochs = 2}));
  CHECK(differs({.initial_epoch = 1}));
  CHECK(differs({.steps_per_epoch = 1}));
  CHECK(differs({.validation_data = rows(4)}));
  CHECK(differs({.validation_steps = 1}));
  CHECK(differs({.validation_freq = 2}));
  CHECK(differs({.stop_on_non_finite = true}));
}

using lockstep_test::contains;
using lockstep_test::message_of;
using Status = ls::detail::StatusBlock;
using Position = ls::detail::TrainingPosition;

constexpr std::size_t metric_state = 2;

TEST_CASE("training position: what is saved comes back") {
  Status sums(metric_state);
  sums[Status::samples] = 64;
  sums[Status::rows] = 64;
  Position position{.epoch = 3,
                    .step = 5,
                    .data_iteration = 2,
                    .data_position = 17,
                    .batch = 32,
                    .is_epoch_open = true};
  position.keep(sums);
  ls::TrainingState saved;
  position.save(saved);
  const Position taken = Position::take(saved, metric_state);
  CHECK(taken.epoch == 3);
  CHECK(taken.step == 5);
  CHECK(taken.data_iteration == 2);
  CHECK(taken.data_position == 17);
  CHECK(taken.batch == 32);
  CHECK(taken.running == position.running);
  CHECK(taken.is_epoch_open);
}

TEST_CASE("training position: the end, and sums of other metrics") {
  Position position{.epoch = 2};
  CHECK_FALSE(position.has_ended());
  position.set_ended(metric_state);
  CHECK(position.has_ended());
  position.step = 1;  // in the middle of an epoch that all have agreed to end
  CHECK_FALSE(position.has_ended());

  ls::TrainingState saved;
  saved.running.resize(Status(metric_state).values().size() + 1);
  CHECK_THROWS_WITH_AS((void)Position::take(saved, metric_state),
                       "fit: the saved state has other metrics than this program",
                       ls::ConfigurationError);
}

TEST_CASE("training position: numbers that no training has are refused") {
  const auto refusal = [](std::int64_t batch, std::int64_t position, double samples) {
    Position wrong{.data_position = position, .batch = batch};
    Status sums(metric_state);
    sums[Status::samples] = samples;
    sums[Status::rows] = samples;
    sums[Status::loss_sum] = NAN;  // of a training that goes wrong
    wrong.keep(sums);
    ls::TrainingState saved;
    wrong.save(saved);
    return message_of<ls::DataError>([&] { (void)Position::take(saved, metric_state); });
  };
  CHECK(refusal(64, 10, 640) == "NO EXCEPTION");
  CHECK(
      contains(refusal(-1, 10, 640), "the number of samples in a global batch is -1, expected 0"));
  CHECK(contains(refusal(std::int64_t{1} << 40, 10'000, 640),
                 "data_position is 10000, expected 0 to 8192"));
  CHECK(contains(refusal(64, 10, -1), "the running sum 0 is -1, expected a count"));
  CHECK(contains(refusal(64, 10, NAN), "the running sum 0 is nan"));
}

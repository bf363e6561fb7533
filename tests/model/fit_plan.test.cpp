#include "lockstep/model/fit_plan.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "lockstep/core/error.hpp"
#include "model/model_testing.hpp"

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

ls::detail::FitPlan plan(const ls::AnyDataset& train, const ls::FitOptions& options, int num_workers = 1) {
  return ls::detail::plan_fit(train, options, sizes, num_workers);
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
  CHECK(plan(data, {}, 3).target == 15);
  CHECK(plan(data, {.steps_per_epoch = 15}, 3).new_pass_each_epoch);
  CHECK_FALSE(plan(data, {.steps_per_epoch = 5}, 3).new_pass_each_epoch);
  CHECK(plan(rows(10), {}, 3).target == 5);
}

TEST_CASE("plan_fit: options that make no sense are refused") {
  CHECK(contains(refused(rows(10), {.epochs = 0}), "fit: epochs must be at least 1, got 0"));
  CHECK(contains(refused(rows(10), {.epochs = -3}), "got -3"));
  CHECK(contains(refused(rows(10), {.initial_epoch = -1}), "initial_epoch must be at least 0, got -1"));
  CHECK(contains(refused(rows(10), {.steps_per_epoch = 0}), "steps_per_epoch must be at least 1, got 0"));
  CHECK(contains(refused(rows(10), {.steps_per_epoch = -1}), "got -1"));
  CHECK(contains(refused(rows(10), {.validation_data = rows(10), .validation_steps = 0}),
                 "validation_steps must be at least 1, got 0"));
  CHECK(contains(refused(rows(10, ls::infinite_cardinality), {}), "repeat forever: give .steps_per_epoch"));
  CHECK(contains(refused(rows(10), {.validation_data = rows(10, ls::infinite_cardinality)}),
                 "repeat forever: give .validation_steps"));
  CHECK(contains(refused(ls::AnyDataset(), {}), "holds no dataset"));
}

TEST_CASE("plan_fit: empty data are refused") {
  CHECK(contains(bad_data(rows(0), {}), "training data is empty"));
  CHECK(contains(bad_data(rows(0), {.steps_per_epoch = 3}), "training data is empty"));
  CHECK(contains(bad_data(rows(10), {.validation_data = rows(0)}), "validation_data is empty"));
}

TEST_CASE("plan_fit: data of other sizes than the model's are refused, with both sizes") {
  const std::array<std::size_t, 2> image{28, 28};
  const auto message = [&](std::span<const std::size_t> input, std::size_t targets) {
    return message_of<ls::DataError>(
        [&] { ls::detail::check_sizes("here", rows(10), {.input = input, .targets = targets}); });
  };
  CHECK(message(image, 1) == "here: the model's Input is (28, 28), that is 784 values per sample; the dataset has 4");
  CHECK(message(square, 10) == "here: the loss expects 10 target values per sample, the dataset has 1");
  CHECK(message(square, 0) == "NO EXCEPTION");  // predict
  CHECK(contains(bad_data(rows(10), {.validation_data = rows(0)}), "fit: validation_data"));
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

TEST_CASE("array_batch_size: 32, or what is wanted") {
  CHECK(ls::detail::array_batch_size("fit", std::nullopt) == 32);
  CHECK(ls::detail::array_batch_size("fit", 7) == 7);
  for (const std::int64_t size : {0, -1})
    CHECK(contains(message_of<ls::ConfigurationError>([&] { (void)ls::detail::array_batch_size("predict", size); }),
                   "predict: batch_size must be at least 1"));
}

TEST_CASE("refuse_batch_size: a dataset has batches of its own") {
  ls::detail::refuse_batch_size("fit", std::nullopt);
  CHECK_THROWS_AS(ls::detail::refuse_batch_size("fit", 32), ls::ConfigurationError);
}

TEST_CASE("training_samples: all but the last share, rounded down as Keras does") {
  CHECK(ls::detail::training_samples(10, 0) == 10);
  CHECK(ls::detail::training_samples(0, 0) == 0);
  CHECK(ls::detail::training_samples(10, 0.2) == 8);
  CHECK(ls::detail::training_samples(10, 0.25) == 7);
  CHECK(ls::detail::training_samples(60000, 0.1) == 54000);
  for (const double split : {-0.1, 1.0, 2.0, std::numeric_limits<double>::quiet_NaN()})
    CHECK(contains(message_of<ls::ConfigurationError>([&] { (void)ls::detail::training_samples(10, split); }),
                   "validation_split must be in [0, 1)"));
}

TEST_CASE("training_samples: neither part may be empty") {
  for (const double split : {0.95, 1e-20})
    CHECK(contains(message_of<ls::ConfigurationError>([&] { (void)ls::detail::training_samples(10, split); }),
                   "one of the parts of 10 samples is empty"));
  CHECK_THROWS_AS((void)ls::detail::training_samples(0, 0.5), ls::ConfigurationError);
}

#include "lockstep/training/fit_options.hpp"
#include "lockstep/core/error.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// The epochs from 0 to 9 at which validation is due.
std::vector<int> due(const ls::ValidationFrequency& frequency) {
  std::vector<int> epochs;
  for (int epoch = 0; epoch < 10; ++epoch)
    if (frequency.due(epoch)) epochs.push_back(epoch);
  return epochs;
}

}  // namespace

TEST_CASE("ValidationFrequency: every n-th epoch") {
  CHECK(due({}).size() == 10);
  CHECK(due(3) == std::vector<int>{2, 5, 8});
  CHECK(due(20).empty());
  for (const int every : {0, -1})
    CHECK(
        contains(message_of<ls::ConfigurationError>([&] { (void)ls::ValidationFrequency(every); }),
                 "validation_freq must be at least 1"));
}

TEST_CASE("ValidationFrequency: a list of epochs, counted from 1") {
  CHECK(due(std::vector{1, 5, 10}) == std::vector<int>{0, 4, 9});
  CHECK(due(std::vector{4}) == std::vector<int>{3});
  CHECK(due(std::vector<int>{}).empty());
  CHECK(due(ls::FitOptions{.validation_freq = {{1, 5}}}.validation_freq) == std::vector<int>{0, 4});
  CHECK(due(ls::FitOptions{.validation_freq = 5}.validation_freq) == std::vector<int>{4, 9});
}

TEST_CASE("ValidationFrequency: its description tells it from others") {
  CHECK(ls::ValidationFrequency(3).description() == "3");
  CHECK(ls::ValidationFrequency({1, 5, 10}).description() == "[1, 5, 10]");
  CHECK(ls::ValidationFrequency(std::vector{3}).description() == "[3]");
  CHECK(ls::ValidationFrequency(std::vector<int>{}).description() == "[]");
}

TEST_CASE("FitOptions: Keras's defaults") {
  const ls::FitOptions options;
  CHECK(options.epochs == 1);
  CHECK(options.verbose == 1);
  CHECK(options.shuffle);
  CHECK(options.initial_epoch == 0);
  CHECK(options.validation_split == 0);
  CHECK_FALSE(options.validation_data);
  CHECK_FALSE(options.batch_size.has_value());
  CHECK_FALSE(options.steps_per_epoch.has_value());
}

TEST_CASE("array_batch_size: 32, or what is wanted") {
  CHECK(ls::detail::array_batch_size("fit", std::nullopt) == 32);
  CHECK(ls::detail::array_batch_size("fit", 7) == 7);
  for (const std::int64_t size : {0, -1})
    CHECK(contains(message_of<ls::ConfigurationError>(
                       [&] { (void)ls::detail::array_batch_size("predict", size); }),
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
    CHECK(contains(
        message_of<ls::ConfigurationError>([&] { (void)ls::detail::training_samples(10, split); }),
        "validation_split must be in [0, 1)"));
}

TEST_CASE("training_samples: neither part may be empty") {
  for (const double split : {0.95, 1e-20})
    CHECK(contains(
        message_of<ls::ConfigurationError>([&] { (void)ls::detail::training_samples(10, split); }),
        "one of the parts of 10 samples is empty"));
  CHECK_THROWS_AS((void)ls::detail::training_samples(0, 0.5), ls::ConfigurationError);
}

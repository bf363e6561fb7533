#include "lockstep/training/array_options.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <optional>

#include "lockstep/core/error.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

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

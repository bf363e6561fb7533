#include "lockstep/model/array_data.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <optional>
#include <vector>

#include "data/support.hpp"
#include "lockstep/core/error.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

std::vector<int> count_to(int n) {
  std::vector<int> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

const std::vector<int> ten = count_to(10);

ls::AnyDataset training(ls::FitOptions& options) {
  return ls::detail::training_data(ten, ten, options);
}

}  // namespace

TEST_CASE(
    "array_data: the rows in order, 32 in a batch unless told otherwise, with targets or without") {
  const auto all = ls::detail::array_data("evaluate", std::nullopt, ten, ten);
  CHECK(batches_of(all) == Batches{range(0, 10)});
  CHECK(all.target_size() == 1);
  const auto without = ls::detail::array_data("predict", 4, ten);
  CHECK(batches_of(without) == Batches{range(0, 4), range(4, 8), range(8, 10)});
  CHECK(without.target_size() == 0);
  CHECK(message_of<ls::ConfigurationError>([] {
          (void)ls::detail::array_data("predict", 0, ten);
        }) == "predict: batch_size must be at least 1, got 0");
  CHECK_THROWS_AS((void)ls::detail::array_data("evaluate", 4, ten, count_to(9)), ls::DataError);
}

TEST_CASE("training_data: shuffled anew each epoch, or in order") {
  ls::FitOptions options{.batch_size = 4};
  const auto shuffled = training(options);
  const auto epoch = [&](std::int64_t number) {
    return flat(batches_of(shuffled, {.seed = 3, .number = number}));
  };
  CHECK(sorted(epoch(0)) == range(0, 10));
  CHECK(epoch(0) != range(0, 10));
  CHECK(epoch(0) != epoch(1));
  options.shuffle = false;
  CHECK(batches_of(training(options)) == Batches{range(0, 4), range(4, 8), range(8, 10)});
  CHECK_FALSE(options.validation_data);
}

TEST_CASE(
    "training_data: the last share of the samples is for validation, in order, before anything is "
    "shuffled") {
  ls::FitOptions options{.batch_size = 2, .validation_split = 0.3};
  const auto train = training(options);
  CHECK(sorted(flat(batches_of(train, {.seed = 3}))) == range(0, 7));
  REQUIRE(options.validation_data);
  CHECK(batches_of(options.validation_data, {.seed = 3}) == Batches{range(7, 9), range(9, 10)});
}

TEST_CASE("training_data: validation data of one's own leave all samples for training") {
  ls::FitOptions options{.validation_split = 0.3,
                         .validation_data = ls::detail::array_data("fit", 1, ten, ten)};
  CHECK(flat(batches_of(training(options))).size() == 10);
  CHECK(options.validation_data.cardinality() == 10);
}

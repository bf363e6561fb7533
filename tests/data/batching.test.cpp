// bucket_by_sequence_length, padded_batch, ragged rows and rejection_resample.
#include <doctest/doctest.h>

#include <cmath>

#include "data/stage_testing.hpp"
#include "data/support.hpp"
#include "golden/data_stages.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/data/files.hpp"
#include "lockstep/data/filter.hpp"
#include "lockstep/data/generator.hpp"
#include "lockstep/data/tensor_slices.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

const auto value = [](const ls::Sample<const float>& s) {
  return static_cast<std::int64_t>(s.x[0]);
};
auto lengths() {
  return ls::from_tensor_slices(std::vector<int>{3, 9, 4, 5, 12, 1, 10, 6, 2, 9, 30, 4, 5, 11, 7});
}

ls::AnyDataset buckets(const std::vector<std::int64_t>& sizes, bool drop_remainder) {
  return lengths().bucket_by_sequence_length(value, {.bucket_boundaries = {5, 10},
                                                     .bucket_batch_sizes = sizes,
                                                     .drop_remainder = drop_remainder});
}

}  // namespace

TEST_SUITE("bucket_by_sequence_length") {
  TEST_CASE("batches as tf.data's") {
    CHECK(batches_of(buckets({3, 2, 2}, false)) == golden_data::buckets);
    CHECK(batches_of(buckets({3, 2, 2}, true)) == golden_data::buckets_dropped);
    CHECK(batches_of(buckets({10, 10, 10}, false)) == golden_data::buckets_at_the_end);
    CHECK(buckets({3, 2, 2}, false).cardinality() == ls::unknown_cardinality);
  }
  TEST_CASE("seeking and two workers, shuffled and repeated") {
    check_stage(buckets({3, 2, 2}, false));
    check_stage(lengths()
                    .shuffle(15)
                    .repeat(9)
                    .bucket_by_sequence_length(
                        value, {.bucket_boundaries = {6}, .bucket_batch_sizes = {4, 2}})
                    .shuffle(2));
  }
  TEST_CASE("batch sizes are divided among workers with files of their own") {
    const auto reader = [](const std::string& name) {
      return ls::Tensor<int>(std::vector<int>(5, std::stoi(name)));
    };
    const auto files = ls::from_files({"1", "2", "3", "4"}, reader);
    auto dataset = files.bucket_by_sequence_length(
        value, {.bucket_boundaries = {3}, .bucket_batch_sizes = {5, 4}});
    CHECK_THROWS_AS(ls::AnyDataset(dataset).shard_files(8, 1), ls::ConfigurationError);
    dataset.shard_files(2, 1);
    std::vector<std::size_t> sizes;
    for (const Indices& batch : batches_of(dataset)) sizes.push_back(batch.size());
    CHECK(sizes == std::vector<std::size_t>{2, 2, 2, 2, 1, 1});
  }
  TEST_CASE("bad arguments") {
    const auto error = [](std::vector<std::int64_t> boundaries, std::vector<std::int64_t> sizes) {
      return message_of<ls::ConfigurationError>([&] {
        (void)lengths().bucket_by_sequence_length(
            value, {.bucket_boundaries = boundaries, .bucket_batch_sizes = sizes});
      });
    };
    CHECK(error({5}, {1}) ==
          "bucket_by_sequence_length: 1 bucket_boundaries need 2 bucket_batch_sizes, got 1");
    CHECK(error({5, 5}, {1, 1, 1}) == "bucket_by_sequence_length: bucket_boundaries must ascend");
    CHECK(error({5}, {1, 0}) ==
          "bucket_by_sequence_length: bucket_batch_sizes must be at least 1, got 0");
    CHECK(error({}, {2}) == "NO EXCEPTION");
  }
}

TEST_SUITE("padded batch") {
  TEST_CASE("ragged rows are padded, and batches are") {
    const auto rows = ls::from_ragged_slices(std::vector<std::vector<int>>{{1, 2}, {}, {3, 4, 5}},
                                             std::vector<int>{7, 8, 9}, {.padding_value = -1});
    CHECK(row_batches(rows.batch(2)) ==
          RowBatches{{{1, 2, -1, 7}, {-1, -1, -1, 8}}, {{3, 4, 5, 9}}});
    CHECK(row_batches(rows.padded_batch(3, {.padded_size = 5, .padding_value = 6})) ==
          RowBatches{{{1, 2, -1, 6, 6, 7}, {-1, -1, -1, 6, 6, 8}, {3, 4, 5, 6, 6, 9}}});
    CHECK(
        row_batches(ls::from_ragged_slices(std::vector<std::vector<float>>{{1}}, {.padded_size = 3})
                        .batch(1)) == RowBatches{{{1, 0, 0}}});
    check_stage(
        rows.repeat(3).shuffle(4).padded_batch(2, {.padded_size = 4, .drop_remainder = true}));
    CHECK(rows.padded_batch(2).sample_size() == 3);
  }
  TEST_CASE("bad arguments") {
    const std::vector<std::vector<int>> rows{{1, 2}, {3}};
    CHECK_THROWS_WITH_AS(
        (void)ls::from_ragged_slices(rows, {.padded_size = 1}),
        "from_ragged_slices: a row has 2 elements, more than padded_size, 1; cut it, or make "
        "padded_size larger",
        ls::DataError);
    CHECK(contains(
        message_of<ls::DataError>([&] { (void)ls::from_ragged_slices(rows, std::vector<int>{1}); }),
        "got 2 samples and 1 targets"));
    CHECK_THROWS_AS((void)numbers(3).padded_batch(0), ls::ConfigurationError);
    CHECK(contains(
        message_of<ls::DataError>([&] {
          (void)ls::from_ragged_slices(rows).padded_batch(2, {.padded_size = 1}).sample_size();
        }),
        "samples have 2 elements, more than padded_size, 1"));
  }
}

TEST_SUITE("rejection_resample") {
  const auto is_rare = [](const auto& s) { return s.index % 10 == 0 ? 1 : 0; };

  TEST_CASE("classes come as often as wanted, with a given and with an estimated distribution") {
    for (const std::vector<double>& initial :
         {std::vector<double>{0.9, 0.1}, std::vector<double>{}}) {
      const auto balanced = numbers(4000).shuffle(4000).rejection_resample(
          is_rare, {.target_dist = {1, 1}, .initial_dist = initial});
      double rare = 0, all = 0;
      for (const std::int64_t index : samples_of(balanced, {1, 0})) {
        rare += index % 10 == 0 ? 1 : 0;
        ++all;
      }
      CHECK(all > 650);
      CHECK(all < 1200);
      CHECK(std::abs(rare / all - 0.5) < 0.1);
      if (!initial.empty())
        CHECK(rare == 400);  // the class that is wanted most, relatively, is never left out
    }
    const auto one =
        numbers(100).rejection_resample(is_rare, {.target_dist = {0, 1}, .initial_dist = {9, 1}});
    CHECK(samples_of(one) == Indices{0, 10, 20, 30, 40, 50, 60, 70, 80, 90});
  }
  TEST_CASE("seeking and two workers; another choice in each pass unless seeded alike") {
    const auto balanced =
        numbers(200).rejection_resample(is_rare, {.target_dist = {1, 1}, .seed = 4});
    check_stage(balanced.repeat(2).batch(4), 15);
    check_stage(numbers(20)
                    .shuffle(20)
                    .repeat()
                    .rejection_resample(is_rare, {.target_dist = {1, 1}})
                    .batch(4));
    CHECK(samples_of(balanced, {1, 0}) == samples_of(balanced, {1, 0}));
    CHECK(samples_of(balanced, {1, 0}) != samples_of(balanced, {1, 1}));
  }
  TEST_CASE("bad arguments and classes") {
    const auto error = [&](std::vector<double> target, std::vector<double> initial) {
      return message_of<ls::ConfigurationError>([&] {
        (void)numbers(3).rejection_resample(is_rare,
                                            {.target_dist = target, .initial_dist = initial});
      });
    };
    CHECK(error({}, {}) == "rejection_resample: target_dist must have a number above 0");
    CHECK(error({1, -1}, {}) ==
          "rejection_resample: target_dist must have finite numbers of at least 0, got -1");
    CHECK(error({1, 1}, {1}) ==
          "rejection_resample: initial_dist needs as many classes as target_dist, 2, got 1");
    CHECK(error({1, 1}, {1, 0}) ==
          "rejection_resample: class 1 is wanted, and initial_dist says that it never comes");
    CHECK(message_of<ls::DataError>([&] {
            (void)samples_of(numbers(3).rejection_resample(
                [](const auto& s) { return s.index - 1; }, {.target_dist = {1, 1}}));
          }) ==
          "rejection_resample: sample 0 has the class -1, expected one of the 2 of target_dist, "
          "from 0");
  }
}

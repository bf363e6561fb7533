// concatenate, zip, sample_from_datasets and interleave.
#include "lockstep/data/joined_stages.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "data/stage_testing.hpp"
#include "data/support.hpp"
#include "golden/data_stages.hpp"
#include "lockstep/data/files.hpp"
#include "lockstep/data/filter.hpp"
#include "lockstep/data/generator.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

const auto all_pass = [](const ls::Sample<const float>&) { return true; };
const auto add_noise = [](ls::Sample<double>& s) { s.x[0] += ls::RandomStream(s.key).uniform(); };

ls::AnyPipeline unknown(std::int64_t n) { return ls::range(n).filter(all_pass); }
ls::AnyPipeline numbered(std::int64_t n) { return ls::range(n); }

/// Dataset i of tf.data's example: 100 i, 100 i + 1, ...
std::vector<ls::AnyPipeline> hundreds(const std::vector<std::int64_t>& sizes) {
  std::vector<ls::AnyPipeline> all;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto first = static_cast<std::int64_t>(100 * i);
    all.emplace_back(ls::range(first, first + sizes[i]));
  }
  return all;
}

}  // namespace

TEST_SUITE("range") {
  TEST_CASE("counts as tf.data's") {
    CHECK(element_of(ls::range(3, 17, 4)) == golden_data::range_up);
    CHECK(element_of(ls::range(10, -5, -3)) == golden_data::range_down);
    CHECK(element_of(ls::range(3)) == range(0, 3));
    CHECK(ls::range(5, 5).cardinality() == 0);
    CHECK(ls::range(5, 2).cardinality() == 0);
    CHECK(ls::range(2, 5, -1).cardinality() == 0);
    CHECK(ls::range(0, 10, 3).cardinality() == 4);
    check_stage(ls::range(10).shuffle(4).batch(3));
  }
  TEST_CASE("bad arguments") {
    CHECK_THROWS_WITH_AS((void)ls::range(1, 2, 0), "range: step must not be 0",
                         ls::ConfigurationError);
    CHECK_THROWS_AS((void)ls::range(std::numeric_limits<std::int64_t>::max()),
                    ls::ConfigurationError);
  }
}

TEST_SUITE("Keras: dataset pipeline: concatenate") {
  TEST_CASE("one dataset after the other: values and cardinality as tf.data's") {
    CHECK(element_of(ls::range(1, 4).concatenate(ls::range(4, 8))) == golden_data::concatenated);
    CHECK(numbered(3).concatenate(numbered(4)).cardinality() ==
          golden_data::cardinality_of_concatenate_finite);
    CHECK(unknown(3).concatenate(numbered(4).repeat()).cardinality() ==
          golden_data::cardinality_of_concatenate_infinite);
    CHECK(unknown(3).concatenate(numbered(4)).cardinality() ==
          golden_data::cardinality_of_concatenate_unknown);
    CHECK(unknown(3).repeat(2).cardinality() == golden_data::cardinality_of_repeat_unknown);
    CHECK(unknown(3).repeat().cardinality() == golden_data::cardinality_of_repeat_unknown_endless);
  }
  TEST_CASE("seeking, two workers, nested, with random maps and targets") {
    const auto noisy = numbers(5).map(add_noise);
    check_stage(noisy.shuffle(5).concatenate(noisy.take(2)).concatenate(noisy).repeat(2).batch(3));
    check_stage(ls::range(0).concatenate(ls::range(4)).shuffle(3).batch(3));
    check_stage(ls::range(3).concatenate(ls::range(4).repeat()).batch(2));
  }
  TEST_CASE("each sample has a number and random numbers of its own") {
    const auto noisy = numbers(4).map(add_noise);
    const auto twice = noisy.concatenate(noisy).concatenate(noisy);
    Indices all = sorted(samples_of(twice));
    CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
    const RowBatches rows = row_batches(twice.batch(12), {1, 0});
    CHECK(rows[0][0] != rows[0][4]);
    CHECK(rows[0][0] != rows[0][8]);
    CHECK(twice.sample_name(all.back()).find("sample 3 of dataset") == 0);
  }
  TEST_CASE("samples of different sizes are refused, in the first pass") {
    CHECK(contains(
        message_of<ls::DataError>([] { (void)samples_of(numbers(3).concatenate(ls::range(3))); }),
        "concatenate: all datasets need samples of one size: dataset 0 has 1 elements and 1 "
        "targets, "
        "dataset 1 has 1 and 0"));
  }
  TEST_CASE("the files of each part are divided") {
    const auto reader = [](const std::string& name) {
      return ls::Tensor<int>(std::vector<int>(2, std::stoi(name)));
    };
    auto all = ls::from_files({"1", "2"}, reader)
                   .concatenate(ls::from_files({"3", "4", "5"}, reader))
                   .batch(2);
    CHECK(all.num_files() == 2);
    CHECK(ls::range(3).concatenate(numbered(3)).num_files() == 0);
    all.shard_files(2, 1);
    CHECK(row_batches(all) == RowBatches{{{2}}, {{2}}, {{4}}, {{4}}});
  }
}

TEST_SUITE("Keras: dataset pipeline: zip") {
  TEST_CASE("stops at the shortest: values and cardinality as tf.data's") {
    const auto zipped = ls::zip(ls::range(1, 4), ls::range(4, 9));
    CHECK(element_of(zipped, 0) == golden_data::zipped_first);
    CHECK(element_of(zipped, 1) == golden_data::zipped_second);
    CHECK(zipped.sample_size() == 1);
    CHECK(zipped.target_size() == 1);
    CHECK(ls::zip(numbered(3), numbered(4)).cardinality() ==
          golden_data::cardinality_of_zip_finite);
    CHECK(ls::zip(numbered(3), numbered(4).repeat()).cardinality() ==
          golden_data::cardinality_of_zip_infinite);
    CHECK(ls::zip(numbered(3), unknown(3)).cardinality() ==
          golden_data::cardinality_of_zip_unknown);
  }
  TEST_CASE("targets follow their samples") {
    const auto zipped = ls::zip(numbers(3), numbers(9).skip(5));
    CHECK(row_batches(zipped.batch(2)) ==
          RowBatches{{{0, 0, 5, 50}, {1, 10, 6, 60}}, {{2, 20, 7, 70}}});
    CHECK(zipped.sample_shape() == std::vector<std::size_t>{2});
    CHECK(samples_of(zipped) == range(0, 3));
    CHECK(zipped.sample_name(2) == "sample 2");
  }
  TEST_CASE("weights are those of either dataset, and not of both") {
    const auto second = ls::zip(numbers(2), weighted_numbers(4).skip(2));
    CHECK(second.weight_size() == 1);
    CHECK(row_batches(second.batch(2)) == RowBatches{{{0, 0, 2, 20, 200}, {1, 10, 3, 30, 300}}});
    const auto first = ls::zip(weighted_numbers(4).skip(2), numbers(2));
    CHECK(first.weight_size() == 1);
    CHECK(first.sample_size() == 2);
    CHECK(row_batches(first.batch(2)) == RowBatches{{{2, 20, 0, 0, 200}, {3, 30, 1, 10, 300}}});
    check_stage(ls::zip(weighted_numbers(5).shuffle(3), numbers(5)).batch(2));
    CHECK(contains(message_of<ls::DataError>([] {
                     (void)row_batches(ls::zip(weighted_numbers(2), weighted_numbers(2)).batch(1));
                   }),
                   "the samples of both datasets have weights"));
  }
  TEST_CASE("seeking and two workers, also where both are shuffled and mapped at random") {
    check_stage(ls::zip(numbers(7).map(add_noise).shuffle(3), numbers(9).map(add_noise).shuffle(9))
                    .map(add_noise)
                    .shuffle(4)
                    .repeat(2)
                    .batch(3));
    check_stage(ls::zip(ls::zip(ls::range(5), ls::range(7)), ls::range(3).repeat()).batch(2));
  }
  TEST_CASE("targets are not read where the caller wants none") {
    auto dataset = ls::zip(ls::range(3), ls::range(3).map([](auto&) { FAIL("read"); })).batch(3);
    dataset.begin({});
    dataset.next();
    const Tensor<float> x(3, 1);
    dataset.read(std::span<const std::size_t>(all_positions(dataset)), x.view(),
                 ls::TensorView<float>{});
    CHECK(x(2, 0) == 2.0f);
  }
}

TEST_SUITE("sample_from_datasets") {
  TEST_CASE("each dataset keeps its order, and all samples come") {
    const auto mixed = ls::sample_from_datasets({ls::range(30), ls::range(100, 150)}, {.seed = 3});
    const Indices values = element_of(mixed);
    Indices low, high;
    for (const std::int64_t value : values) (value < 100 ? low : high).push_back(value);
    CHECK(low == range(0, 30));
    CHECK(high == range(100, 150));
    CHECK(sorted(values) != values);
    CHECK(element_of(mixed, 0, {7, 0}) == values);
    CHECK(element_of(mixed, 0, {7, 1}) != values);
    const auto same = ls::sample_from_datasets({ls::range(30), ls::range(100, 150)},
                                               {.seed = 3, .rerandomize_each_iteration = false});
    CHECK(element_of(same, 0, {7, 1}) == element_of(same, 0, {7, 0}));
  }
  TEST_CASE("as often as the weights say") {
    const auto mixed = ls::sample_from_datasets(
        {ls::range(1).repeat(), ls::range(1, 2).repeat(), ls::range(2, 3)}, {.weights = {3, 1, 0}});
    double ones = 0;
    for (const std::int64_t value : element_of(mixed.take(4000))) {
      REQUIRE(value < 2);
      ones += static_cast<double>(value);
    }
    CHECK(std::abs(ones / 4000 - 0.25) < 4 * std::sqrt(0.25 * 0.75 / 4000));
  }
  TEST_CASE("may stop where a dataset is empty") {
    const auto mixed = ls::sample_from_datasets({ls::range(5).repeat(), ls::range(100, 103)},
                                                {.seed = 1, .stop_on_empty_dataset = true});
    const Indices values = element_of(mixed);
    CHECK(std::count_if(values.begin(), values.end(), [](std::int64_t v) { return v >= 100; }) ==
          3);
    CHECK(mixed.cardinality() == ls::unknown_cardinality);
    check_stage(mixed.batch(2));
  }
  TEST_CASE("cardinality as tf.data's, seeking and two workers") {
    const auto card = [](ls::AnyPipeline a, ls::AnyPipeline b) {
      return ls::sample_from_datasets({a, b}).cardinality();
    };
    CHECK(card(numbered(3), numbered(4)) == golden_data::cardinality_of_sample_finite);
    CHECK(card(numbered(3), numbered(4).repeat()) == golden_data::cardinality_of_sample_infinite);
    CHECK(card(numbered(3), unknown(4)) == golden_data::cardinality_of_sample_unknown);
    check_stage(
        ls::sample_from_datasets({numbers(9).map(add_noise), numbers(4).shuffle(4).repeat(2)})
            .batch(3));
    check_stage(ls::sample_from_datasets({ls::range(3), ls::range(4).repeat()}).batch(3));
  }
  TEST_CASE("bad arguments") {
    const auto with = [](std::vector<double> weights) {
      return message_of<ls::ConfigurationError>([&] {
        (void)ls::sample_from_datasets({ls::range(2), ls::range(3)},
                                       {.weights = std::move(weights)});
      });
    };
    CHECK(with({1}) == "sample_from_datasets: expected a weight for each of the 2 datasets, got 1");
    CHECK(with({1, -1}) == "sample_from_datasets: a weight must be finite and at least 0, got -1");
    CHECK(contains(with({0, std::numeric_limits<double>::infinity()}), "got inf"));
    CHECK(with({0, 0}) == "sample_from_datasets: all weights are 0; one must be above");
    CHECK_THROWS_WITH_AS((void)ls::sample_from_datasets({}),
                         "sample_from_datasets: there are no datasets; give at least one",
                         ls::ConfigurationError);
  }
}

TEST_SUITE("Keras: dataset pipeline: interleave") {
  TEST_CASE("blocks of cycle_length datasets in turn: values as tf.data's") {
    CHECK(element_of(ls::interleave(hundreds({4, 1, 3, 2, 5}), {.cycle_length = 2})) ==
          golden_data::interleaved);
    CHECK(element_of(
              ls::interleave(hundreds({4, 1, 3, 2, 5}), {.cycle_length = 3, .block_length = 2})) ==
          golden_data::interleaved_blocks);
    CHECK(element_of(
              ls::interleave(hundreds({4, 1, 3, 0, 5}), {.cycle_length = 5, .block_length = 3})) ==
          golden_data::interleaved_all);
    CHECK(element_of(ls::interleave(hundreds({4, 1, 3, 0, 5}), {.block_length = 3})) ==
          golden_data::interleaved_all);
  }
  TEST_CASE("seeking and two workers") {
    check_stage(
        ls::interleave(hundreds({4, 1, 3, 2, 5}), {.cycle_length = 3, .block_length = 2}).batch(2));
    check_stage(
        ls::interleave({numbers(5).map(add_noise).shuffle(2), numbers(7)}).repeat(2).batch(4));
    CHECK(ls::interleave(hundreds({4, 1, 3})).cardinality() == 8);
    CHECK(ls::interleave(hundreds({0, 0})).batch(2).cardinality() == 0);
    check_stage(ls::interleave(hundreds({0, 0})).batch(2));
  }
  TEST_CASE("bad arguments") {
    CHECK_THROWS_AS((void)ls::interleave(hundreds({1}), {.cycle_length = -1}),
                    ls::ConfigurationError);
    CHECK_THROWS_WITH_AS((void)ls::interleave(hundreds({1}), {.block_length = 0}),
                         "interleave: block_length must be at least 1, got 0",
                         ls::ConfigurationError);
    CHECK_THROWS_AS((void)ls::interleave({}), ls::ConfigurationError);
  }
}

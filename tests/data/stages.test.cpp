// filter, window, enumerate, shard, unbatch and map behind batch.
#include <doctest/doctest.h>

#include "data/stage_testing.hpp"
#include "data/support.hpp"
#include "golden/data_stages.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/data/enumerate.hpp"
#include "lockstep/data/filter.hpp"
#include "lockstep/data/generator.hpp"
#include "lockstep/data/order.hpp"
#include "lockstep/data/window.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

const auto add_noise = [](ls::Sample<double>& s) { s.x[0] += ls::RandomStream(s.key).uniform(); };
const auto one_of_three = [](const ls::Sample<const float>& s) {
  return static_cast<int>(s.x[0]) % 3 == 1;
};

Batches windows_of(std::int64_t n, std::int64_t size, std::int64_t shift, std::int64_t stride) {
  Batches windows;
  for (const Rows& batch : row_batches(ls::range(n).window(size, shift, stride).batch(3)))
    for (const Row& row : batch) windows.emplace_back(row.begin(), row.end());
  return windows;
}

}  // namespace

TEST_SUITE("Keras: dataset pipeline: filter") {
  TEST_CASE("keeps the samples that a function wants: values and cardinality as tf.data's") {
    CHECK(element_of(ls::range(20).filter(one_of_three)) == golden_data::filtered);
    CHECK(ls::range(4).filter(one_of_three).cardinality() ==
          golden_data::cardinality_of_filter_finite);
    CHECK(element_of(ls::range(300).filter(one_of_three)).size() == 100);
    CHECK(element_of(ls::range(2, 400, 3).filter(one_of_three)).empty());
    CHECK(element_of(ls::range(2, 5, 3).filter(one_of_three).repeat()).empty());
  }
  TEST_CASE("sees the sample as maps made it, with its target, number and key") {
    auto random = numbers(40).map(add_noise).filter([](const auto& s) {
      REQUIRE(s.y[0] == 10 * static_cast<float>(s.index));
      return s.x[0] - static_cast<double>(s.index) < 0.5 && ls::RandomStream(s.key).uniform() < 0.9;
    });
    const auto rows = row_batches(random.batch(40), {1, 0});
    CHECK(rows.at(0).size() > 5);
    CHECK(rows.at(0).size() < 35);
    for (const Row& row : rows[0]) CHECK(row[0] - row[1] / 10 < 0.5);
    CHECK(row_batches(random.batch(40), {1, 1}) != rows);
    check_stage(random.batch(3), 20);
  }
  TEST_CASE("seeking and two workers") {
    check_stage(numbers(40).shuffle(9).filter(one_of_three).repeat(2).shuffle(3).batch(4));
    check_stage(numbers(10).filter(one_of_three).repeat().batch(4));
  }
  TEST_CASE("describes itself") {
    struct Even {
      bool operator()(const ls::Sample<const double>& s) const { return s.index % 2 == 0; }
      std::string description() const { return "even"; }
    };
    ls::PipelineDescription description;
    ls::range(4).filter(Even{}).filter(one_of_three).describe(description);
    CHECK(description.text == "range(0, 4 numbers, step 1) -> filter(even) -> filter");
  }
}

TEST_SUITE("window") {
  TEST_CASE("values and cardinality as tf.data's") {
    CHECK(windows_of(10, 3, 2, 1) == golden_data::windows);
    CHECK(windows_of(12, 3, 4, 2) == golden_data::windows_strided);
    CHECK(windows_of(12, 2, 5, 1) == golden_data::windows_apart);
    CHECK(windows_of(4, 3, 1, 2) == golden_data::windows_none);
    CHECK(ls::range(10).window(3, 2).cardinality() == golden_data::cardinality_of_window_dropped);
    CHECK(ls::range(10).window(3).cardinality() == 3);
  }
  TEST_CASE("joins elements and targets; a window has the number of its first sample") {
    const auto windows = numbers(6).window(2, 3);
    CHECK(row_batches(windows.batch(4)) == RowBatches{{{0, 1, 0, 10}, {3, 4, 30, 40}}});
    CHECK(samples_of(windows) == Indices{0, 3});
    CHECK(ls::from_tensor_slices(ls::Tensor<int>(std::vector<int>(12), {3, 2, 2}))
              .window(3)
              .sample_shape() == std::vector<std::size_t>{3, 2, 2});
  }
  TEST_CASE("weights of the samples: one for each token, behind the targets") {
    const auto windows = weighted_numbers(5).window(2);
    CHECK(windows.weight_size() == 2);
    CHECK(row_batches(windows.batch(4)) ==
          RowBatches{{{0, 1, 0, 10, 0, 100}, {2, 3, 20, 30, 200, 300}}});
    check_stage(weighted_numbers(9).shuffle(4).window(3, 1).batch(2));
  }
  TEST_CASE("seeking and two workers, for every relation of size, shift and stride") {
    for (const auto& [size, shift, stride] :
         {std::array{3, 1, 1}, std::array{3, 2, 2}, std::array{2, 5, 1}, std::array{2, 4, 3},
          std::array{1, 1, 1}})
      check_stage(numbers(17)
                      .map(add_noise)
                      .shuffle(4)
                      .window(size, shift, stride)
                      .map(add_noise)
                      .batch(2));
    check_stage(numbers(7).window(3, 1).shuffle(3).window(2, 1).repeat(2).batch(2));
  }
  TEST_CASE("bad arguments") {
    CHECK_THROWS_WITH_AS((void)ls::range(3).window(0),
                         "window: size must be in [1, 2147483648], got 0", ls::ConfigurationError);
    CHECK_THROWS_AS((void)ls::range(3).window(1, -1), ls::ConfigurationError);
    CHECK_THROWS_AS((void)ls::range(3).window(1, 1, 0), ls::ConfigurationError);
  }
}

TEST_SUITE("enumerate") {
  TEST_CASE("values and cardinality as tf.data's") {
    const auto numbered = ls::range(7, 12).enumerate(5);
    CHECK(element_of(numbered, 0) == golden_data::enumerated);
    CHECK(element_of(numbered, 1) == range(7, 12));
    CHECK(numbered.cardinality() == golden_data::cardinality_of_enumerate_finite);
    CHECK(row_batches(numbers(2).enumerate().batch(2)) == RowBatches{{{0, 0, 0}, {1, 1, 10}}});
  }
  TEST_CASE("numbers follow the order of the pass; seeking and two workers") {
    CHECK(element_of(ls::range(9).shuffle(9).enumerate(), 0) == range(0, 9));
    check_stage(numbers(9).map(add_noise).shuffle(9).enumerate().shuffle(4).repeat(2).batch(4));
  }
}

TEST_SUITE("shard") {
  TEST_CASE("values and cardinality as tf.data's") {
    CHECK(element_of(ls::range(11).shard(3, 1)) == golden_data::sharded);
    CHECK(ls::range(11).shard(3, 1).cardinality() == golden_data::cardinality_of_shard_finite);
    CHECK(element_of(ls::range(2).shard(4, 3)).empty());
    CHECK(element_of(ls::range(4).repeat().shard(3, 2).take(4)) == Indices{2, 1, 0, 3});
  }
  TEST_CASE("of batches; seeking and two workers") {
    CHECK(batches_of(numbers(10).batch(2).shard(2, 1)) == Batches{{2, 3}, {6, 7}});
    for (const int index : {0, 1, 2})
      check_stage(numbers(17).shuffle(5).shard(3, index).repeat(2).batch(2));
    check_stage(numbers(17).batch(2).shard(3, 1));
    check_stage(numbers(17).filter(one_of_three).shard(2, 1).batch(2));
  }
  TEST_CASE("bad arguments") {
    CHECK_THROWS_AS((void)ls::range(3).shard(0, 0), ls::ConfigurationError);
    CHECK_THROWS_AS((void)ls::range(3).shard(2, 2), ls::ConfigurationError);
  }
}

TEST_SUITE("unbatch") {
  TEST_CASE("values and cardinality as tf.data's") {
    const auto samples = ls::range(10).batch(4).unbatch();
    CHECK(element_of(samples.skip(1)) == golden_data::unbatched);
    CHECK(samples.cardinality() == golden_data::cardinality_of_unbatch_finite);
    CHECK(sorted(element_of(ls::range(10).batch(3).shuffle(10).unbatch())) ==
          golden_data::shuffled_batches_flat);
    CHECK(ls::range(0).batch(4).unbatch().cardinality() == 0);
  }
  TEST_CASE("seeking and two workers, with samples made of others") {
    check_stage(
        numbers(17).map(add_noise).window(2, 1).batch(5).shuffle(3).unbatch().repeat(2).batch(4));
  }
}

TEST_SUITE("map behind batch") {
  TEST_CASE("works on samples, as before batch") {
    const auto doubled = [](auto& s) { s.x[0] *= 2; };
    CHECK(row_batches(numbers(5).batch(2).map(doubled)) ==
          row_batches(numbers(5).map(doubled).batch(2)));
    check_stage(numbers(9).shuffle(9).batch(2).map(add_noise).shuffle(3));
    const auto pairs =
        numbers(3).batch(2).map([](const auto& in, auto& out) { out.x[0] = out.x[1] = in.x[0]; },
                                {.sample_size = 2, .target_size = 0});
    CHECK(row_batches(pairs) == RowBatches{{{0, 0}, {1, 1}}, {{2, 2}}});
  }
}

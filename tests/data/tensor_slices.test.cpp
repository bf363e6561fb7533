#include "lockstep/data/tensor_slices.hpp"

#include <doctest/doctest.h>
#include <Eigen/Core>

#include <cstddef>
#include <vector>

#include "data/support.hpp"
#include "lockstep/data/cache.hpp"
#include "lockstep/data/enumerate.hpp"
#include "lockstep/data/joined_stages.hpp"
#include "lockstep/data/window.hpp"
#include "support/tensor.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {
static_assert(ls::Source<ls::TensorSlices<std::uint8_t, int>>);
static_assert(ls::Source<ls::TensorSlices<float>>);
static_assert(ls::Source<ls::TensorSlices<double, double>>);
}  // namespace

TEST_SUITE("Keras: dataset pipeline: from_tensor_slices") {
  TEST_CASE("a row of each tensor is a sample: images and labels") {
    const ls::Tensor<std::uint8_t> images({0, 51, 102, 255, 1, 2, 3, 4}, {2, 2, 2});
    const ls::Tensor<std::uint8_t> labels(std::vector<std::uint8_t>{7, 3});
    auto dataset = ls::from_tensor_slices(images / 255.0f, labels).batch(2);
    CHECK(dataset.sample_size() == 4);
    CHECK(dataset.target_size() == 1);
    CHECK(dataset.cardinality() == 1);
    dataset.begin({});
    dataset.next();
    const Read<float> read(dataset);
    CHECK(read.x(0, 1) == 51.0f / 255.0f);
    CHECK(read.x(0, 3) == 1.0f);
    CHECK(read.x(1, 3) == 4.0f / 255.0f);
    CHECK(read.y(0, 0) == 7.0f);
    CHECK(read.y(1, 0) == 3.0f);
    CHECK(read.x.padding_is(0.0f));
  }

  TEST_CASE("Eigen and std::vector") {
    Eigen::MatrixXf x(2, 3);
    x << 1, 2, 3, 4, 5, 6;
    Eigen::Array<double, Eigen::Dynamic, 2, Eigen::RowMajor> y(2, 2);
    y << 10, 20, 30, 40;
    auto dataset = ls::from_tensor_slices(x, y).batch(2);
    dataset.begin({});
    dataset.next();
    const Read<double> read(dataset);
    CHECK(read.x(1, 0) == 4.0);
    CHECK(read.y(0, 1) == 20.0);
    CHECK(ls::from_tensor_slices(x.cast<int>(), std::vector<int>{0, 1}).cardinality() == 2);
    CHECK(ls::from_tensor_slices(Eigen::MatrixXf(x * x.transpose())).sample_size() == 2);
  }

  TEST_CASE("without targets") {
    auto dataset = ls::from_tensor_slices(std::vector<float>{1, 2, 3}).batch(3);
    CHECK(dataset.target_size() == 0);
    dataset.begin({});
    dataset.next();
    CHECK(Read<float>(dataset).x(2, 0) == 3.0f);
  }

  TEST_CASE("different numbers of rows are refused by both counts") {
    const std::string message = message_of<ls::DataError>([] {
      (void)ls::from_tensor_slices(ls::Tensor<float>({1, 2, 3, 4}, {2, 2}),
                                   std::vector<int>{1, 2, 3});
    });
    CHECK(contains(message, "2 samples"));
    CHECK(contains(message, "3 targets"));
  }

  TEST_CASE("the caller may want no targets") {
    auto dataset = numbers(3).batch(3);
    dataset.begin({});
    dataset.next();
    const Tensor<float> x(3, 1);
    dataset.read(std::span<const std::size_t>(all_positions(dataset)), x.view(),
                 ls::TensorView<float>{});
    CHECK(x(2, 0) == 2.0f);
  }

  TEST_CASE("slices of a tensor, as validation_split takes them") {
    const ls::Tensor<int> all({0, 1, 2, 3, 4, 5, 6, 7}, {4, 2});
    auto dataset = ls::from_tensor_slices(all.slice(3, 4)).batch(1);
    CHECK(dataset.cardinality() == 1);
    dataset.begin({});
    dataset.next();
    CHECK(Read<float>(dataset).x(0, 1) == 7.0f);
  }
}

TEST_CASE("from_tensor_slices: weights stand behind the targets, and stages carry them") {
  const ls::Tensor<float> x({0, 1, 2, 3}), y({10, 11, 12, 13});
  const ls::Tensor<int> halves({1, 2, 3, 4});
  auto data = ls::from_tensor_slices(x, y, halves / 2).skip(1).repeat(2).batch(3);
  CHECK(data.target_size() == 2);
  CHECK(data.weight_size() == 1);
  CHECK(ls::from_tensor_slices(x, y).weight_size() == 0);
  ls::PipelineDescription description;
  data.describe(description);
  CHECK(description.text.find("from_tensor_slices(weights)") == 0);
  data.begin({});
  REQUIRE(data.next() == 3);
  const lockstep_test::Tensor<double> samples(3, 1), targets(3, 2);
  const std::size_t positions[] = {0, 1, 2};
  data.read(positions, samples.view(), targets.view());
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(targets(i, 0) == static_cast<double>(11 + i));
    CHECK(targets(i, 1) == static_cast<double>(i + 2) / 2);
  }
  CHECK_THROWS_WITH_AS(
      (void)ls::from_tensor_slices(x, y, std::vector<float>{1}),
      "from_tensor_slices: every sample needs its weight, got 4 samples (4) and 1 weights (1)",
      ls::DataError);
}

TEST_CASE("weights: stages that cannot carry them say so") {
  const ls::Tensor<float> x({0, 1, 2, 3}), w({1, 2, 3, 4});
  const auto data = ls::from_tensor_slices(x, x, w), plain = ls::from_tensor_slices(x, x);
  const auto begin = [](auto pipeline) { pipeline.begin({}); };
  CHECK_THROWS_AS(begin(ls::zip(data, data).batch(1)), ls::DataError);
  CHECK(ls::zip(plain, data).weight_size() == 1);
  CHECK(data.enumerate().cache().weight_size() == 1);
  const auto wide = ls::from_tensor_slices(x, ls::Tensor<float>({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2}));
  CHECK_THROWS_AS(begin(data.concatenate(wide).batch(1)), ls::DataError);
  CHECK(data.concatenate(data).weight_size() == 1);
}

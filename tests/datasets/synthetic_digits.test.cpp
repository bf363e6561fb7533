#include "lockstep/datasets/synthetic_digits.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "lockstep/core/crc.hpp"

namespace ls = lockstep;

namespace {

using Pixels = std::array<std::uint8_t, ls::SyntheticDigits::height * ls::SyntheticDigits::width>;

bool same(const ls::Tensor<std::uint8_t>& a, const ls::Tensor<std::uint8_t>& b) {
  return a.shape() == b.shape() &&
         std::equal(a.values().begin(), a.values().end(), b.values().begin());
}

/// Right answers of the nearest class mean: a weak, but linear, classifier.
std::size_t nearest_mean(const ls::LabelledImages& train, const ls::LabelledImages& test) {
  const std::size_t size = train.images.sample_size();
  std::vector<double> mean(10 * size);
  std::array<double, 10> count{};
  for (std::size_t i = 0; i < train.images.rows(); ++i) {
    const std::size_t label = train.labels.values()[i];
    count[label] += 1;
    for (std::size_t p = 0; p < size; ++p) mean[label * size + p] += train.images.row(i)[p];
  }
  for (std::size_t label = 0; label < 10; ++label)
    for (std::size_t p = 0; p < size; ++p) mean[label * size + p] /= count[label];
  std::size_t right = 0;
  for (std::size_t i = 0; i < test.images.rows(); ++i) {
    std::array<double, 10> distance{};
    for (std::size_t label = 0; label < 10; ++label)
      for (std::size_t p = 0; p < size; ++p) {
        const double difference = mean[label * size + p] - test.images.row(i)[p];
        distance[label] += difference * difference;
      }
    const auto nearest = std::min_element(distance.begin(), distance.end()) - distance.begin();
    right += static_cast<std::size_t>(nearest) == test.labels.values()[i] ? 1 : 0;
  }
  return right;
}

}  // namespace

TEST_SUITE("SyntheticDigits") {
  TEST_CASE("shapes and labels") {
    const ls::ImageDataset digits = ls::make_synthetic_digits({.train = 500, .test = 100});
    CHECK(digits.train.images.shape() == std::vector<std::size_t>{500, 28, 28});
    CHECK(digits.train.labels.shape() == std::vector<std::size_t>{500});
    CHECK(digits.test.images.rows() == 100);
    std::array<int, 10> count{};
    for (const std::uint8_t label : digits.train.labels.values()) ++count.at(label);
    for (const int n : count) CHECK(n > 20);  // 50 expected, standard deviation 7
    const auto pixels = digits.train.images.values();
    CHECK(*std::max_element(pixels.begin(), pixels.end()) == 255);
    CHECK(std::count(pixels.begin(), pixels.end(), 0) > 500 * 784 / 4);  // the background is black
  }

  TEST_CASE("a function of the seed") {
    const ls::ImageDataset a = ls::make_synthetic_digits({.train = 50, .test = 50, .seed = 7});
    const ls::ImageDataset b = ls::make_synthetic_digits({.train = 50, .test = 50, .seed = 7});
    const ls::ImageDataset c = ls::make_synthetic_digits({.train = 50, .test = 50, .seed = 8});
    CHECK(same(a.train.images, b.train.images));
    CHECK(same(a.train.labels, b.train.labels));
    CHECK_FALSE(same(a.train.images, c.train.images));
    CHECK_FALSE(same(a.train.images, a.test.images));
  }

  TEST_CASE("more images begin with the same ones") {
    const ls::ImageDataset few = ls::make_synthetic_digits({.train = 20, .test = 10});
    const ls::ImageDataset many = ls::make_synthetic_digits({.train = 30, .test = 10});
    CHECK(same(few.train.images, many.train.images.slice(0, 20)));
    CHECK(same(few.test.images, many.test.images));
  }

  TEST_CASE("image by image, in any order") {
    const ls::SyntheticDigits digits(3);
    Pixels first{};
    Pixels again{};
    const std::uint8_t label = digits.draw(5, first);
    (void)digits.draw(4, again);
    CHECK(digits.draw(5, again) == label);
    CHECK(first == again);
  }

  TEST_CASE("the classes differ, but not so much that their means would tell them apart") {
    const ls::ImageDataset digits = ls::make_synthetic_digits({.train = 1000, .test = 300});
    const std::size_t right = nearest_mean(digits.train, digits.test);
    CHECK(right > 300 * 50 / 100);
    CHECK(right < 300 * 90 / 100);
  }

  TEST_CASE("nothing") {
    CHECK(ls::make_synthetic_digits({.train = 0, .test = 0}).train.images.rows() == 0);
  }

  TEST_CASE("the same bytes on every machine, with every compiler and option") {
    const ls::ImageDataset digits =
        ls::make_synthetic_digits({.train = 1000, .test = 0, .seed = 1});
    CHECK(ls::crc32c(std::as_bytes(digits.train.images.values())) == 0x6D308208);
  }
}

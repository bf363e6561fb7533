// Random rotation, translation, zoom, contrast, noise, cutout and MixUp.
#include "lockstep/data/augmentation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "data/stage_testing.hpp"
#include "data/support.hpp"
#include "golden/augmentation.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/data/tensor_slices.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_CASE("ImageShape: its size, and samples of another one") {
  constexpr ls::ImageShape image{32, 32, 3};
  static_assert(image.size() == 3072);
  CHECK(image.to_string() == "32 x 32 x 3");
  ls::detail::require_image("Any", image, 3072);
  CHECK_THROWS_WITH_AS(ls::detail::require_image("Any", image, 784),
                       "Any: expected images of 32 x 32 x 3, got a sample of 784 elements",
                       ls::DataError);
}

namespace {

/// The result for a sample whose elements are 1, 2, 3, ...
std::vector<float> crop(const ls::RandomCrop& function, std::uint64_t key) {
  std::vector<float> x(function.image.size()), y;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
  ls::Sample<float> sample{.x = x, .y = y, .key = ls::RandomKey(key)};
  function(sample);
  return x;
}

/// From the definition: pixel (down, right) of the padded image becomes the first.
std::vector<float> part(const ls::ImageShape& image, int padding, int down, int right) {
  const int height = static_cast<int>(image.height), width = static_cast<int>(image.width);
  const int channels = static_cast<int>(image.channels);
  std::vector<float> result;
  for (int row = down - padding; row < down - padding + height; ++row)
    for (int column = right - padding; column < right - padding + width; ++column)
      for (int channel = 0; channel < channels; ++channel) {
        const bool inside = row >= 0 && row < height && column >= 0 && column < width;
        result.push_back(
            inside ? static_cast<float>((row * width + column) * channels + channel + 1) : 0);
      }
  return result;
}

}  // namespace

TEST_CASE("RandomCrop: every part of the padded image comes, and nothing else") {
  for (const int padding : {0, 1, 2, 4}) {
    const ls::RandomCrop function{.image = {3, 2, 2}, .padding = static_cast<std::size_t>(padding)};
    std::set<std::vector<float>> expected, seen;
    for (int down = 0; down <= 2 * padding; ++down)
      for (int right = 0; right <= 2 * padding; ++right)
        expected.insert(part(function.image, padding, down, right));
    for (std::uint64_t key = 0; key < 2000; ++key) seen.insert(crop(function, key));
    CHECK(seen == expected);
  }
}

TEST_CASE("RandomCrop: the key decides") {
  const ls::RandomCrop function{.image = {8, 8, 1}, .padding = 4};
  CHECK(crop(function, 7) == crop(function, 7));
  CHECK(crop(function, 7) != crop(function, 8));
}

TEST_CASE("RandomCrop: samples of another size are refused") {
  const ls::RandomCrop function{.image = {4, 4, 3}, .padding = 1};
  std::vector<double> x(47);
  ls::Sample<double> sample{.x = x, .y = {}};
  CHECK_THROWS_WITH_AS(function(sample),
                       "RandomCrop: expected images of 4 x 4 x 3, got a sample of 47 elements",
                       ls::DataError);
  CHECK(function.description() == "RandomCrop(image=4 x 4 x 3, padding=1)");
}

namespace {

using Values = std::vector<float>;

/// How often each result comes.
std::map<Values, int> flips(const ls::RandomFlip& function, const Values& image) {
  std::map<Values, int> counts;
  for (std::uint64_t key = 0; key < 1000; ++key) {
    Values x = image;
    ls::Sample<float> sample{.x = x, .y = {}, .key = ls::RandomKey(key)};
    function(sample);
    ++counts[x];
  }
  return counts;
}

}  // namespace

TEST_CASE("RandomFlip: left and right, of every second image") {
  const Values image{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};  // 2 x 3 x 2
  const auto counts = flips({.image = {2, 3, 2}}, image);
  REQUIRE(counts.size() == 2);
  CHECK(counts.at(image) > 400);
  CHECK(counts.at(Values{5, 6, 3, 4, 1, 2, 11, 12, 9, 10, 7, 8}) > 400);
}

TEST_CASE("RandomFlip: top and bottom on their own") {
  const Values image{1, 2, 3, 4, 5, 6};  // 3 x 2 x 1
  const auto vertical = flips({.image = {3, 2, 1}, .horizontal = false, .vertical = true}, image);
  CHECK(vertical.size() == 2);
  CHECK(vertical.at(Values{5, 6, 3, 4, 1, 2}) > 400);
  const auto both = flips({.image = {3, 2, 1}, .vertical = true}, image);
  CHECK(both.size() == 4);
  CHECK(both.at(Values{6, 5, 4, 3, 2, 1}) > 200);
}

TEST_CASE("RandomFlip: options") {
  CHECK(ls::RandomFlip{.image = {2, 2, 1}}.description() ==
        "RandomFlip(image=2 x 2 x 1, horizontal)");
  std::vector<double> x(5);
  ls::Sample<double> sample{.x = x, .y = {}};
  CHECK_THROWS_AS((ls::RandomFlip{.image = {2, 2, 1}}(sample)), ls::DataError);
}

TEST_CASE("image augmentation: by sample and pass, whatever the batches and who reads them") {
  std::vector<float> pixels(20 * 16);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i);
  const ls::Tensor<float> images(pixels, {20, 4, 4, 1});
  const auto pipeline = ls::from_tensor_slices(images)
                            .map(ls::RandomCrop{.image = {4, 4, 1}, .padding = 2})
                            .map(ls::RandomFlip{.image = {4, 4, 1}});
  // Sample 13 of a pass over batches of `size`.
  const auto sample = [&](std::int64_t size, std::int64_t number) {
    auto data = pipeline.batch(size);
    data.begin({.seed = 5, .number = number});
    data.seek(13 / size);
    data.next();
    const std::size_t position[] = {static_cast<std::size_t>(13 % size)};
    ls::Buffer memory(16 * 16 * sizeof(float));
    const ls::TensorView<float> x(reinterpret_cast<float*>(memory.data()), 1, 16, 16);
    data.read(std::span<const std::size_t>(position), x, ls::TensorView<float>());
    Values values;
    for (std::size_t f = 0; f < 16; ++f) values.push_back(x(0, f));
    return values;
  };
  CHECK(sample(20, 0) == sample(4, 0));
  CHECK(sample(20, 0) == sample(1, 0));
  bool changes = false;
  for (const std::int64_t pass : {1, 2, 3}) changes |= sample(20, pass) != sample(20, 0);
  CHECK(changes);
  ls::PipelineDescription description;
  pipeline.describe(description);
  CHECK(contains(description.text, "map(RandomCrop(image=4 x 4 x 1, padding=2))"));
}

namespace {

constexpr ls::ImageShape shape{golden_augmentation::rows, golden_augmentation::columns,
                               golden_augmentation::channels};

/// The image of the golden values.
template <class T>
std::vector<T> golden_image() {
  std::vector<T> x(shape.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>((37 * i * i + 11 * i) % 101);
  return x;
}

template <class T, class F>
std::vector<T> changed_by(const F& function, std::vector<T> x, std::uint64_t key = 1) {
  std::vector<T> y;
  ls::Sample<T> sample{.x = x, .y = y, .key = ls::RandomKey(key)};
  function(sample);
  return x;
}

template <class F, std::size_t N>
void check_golden(const F& function, const double (&expected)[N]) {
  const std::vector<float> floats = changed_by(function, golden_image<float>());
  const std::vector<double> doubles = changed_by(function, golden_image<double>());
  REQUIRE(floats.size() == N);
  for (std::size_t i = 0; i < N; ++i) {
    CHECK(std::abs(static_cast<double>(floats[i]) - expected[i]) < 2e-3);
    CHECK(std::abs(doubles[i] - expected[i]) < 2e-3);
  }
}

/// The last bits of numbers between 0 and 1 are in none of the results.
auto images() {
  std::vector<float> x;
  for (std::size_t i = 0; i < 6 * shape.size(); ++i) x.push_back(static_cast<float>(i % 91));
  return ls::from_tensor_slices(
      ls::Tensor<float>(x, {6, shape.height, shape.width, shape.channels}),
      std::vector<int>{0, 1, 2, 3, 4, 5});
}

template <class F>
std::string error_of(const F& function) {
  return message_of<ls::ConfigurationError>(
      [&] { (void)changed_by(function, golden_image<float>()); });
}

}  // namespace

TEST_SUITE("augmentation") {
  TEST_CASE("rotation, translation, zoom and contrast as Keras's") {
    check_golden(ls::RandomRotation{.image = shape, .factor = {0.07, 0.07}},
                 golden_augmentation::rotated);
    check_golden(ls::RandomRotation{.image = shape,
                                    .factor = {-0.2, -0.2},
                                    .fill_mode = ls::FillMode::constant,
                                    .fill_value = 7},
                 golden_augmentation::rotated_back_constant);
    check_golden(ls::RandomRotation{.image = shape,
                                    .factor = {0.13, 0.13},
                                    .fill_mode = ls::FillMode::nearest,
                                    .interpolation = ls::Interpolation::nearest},
                 golden_augmentation::rotated_nearest);
    check_golden(
        ls::RandomTranslation{
            .image = shape, .height_factor = {0.3, 0.3}, .width_factor = {-0.25, -0.25}},
        golden_augmentation::translated);
    check_golden(ls::RandomTranslation{.image = shape,
                                       .height_factor = {-0.4, -0.4},
                                       .width_factor = {0.1, 0.1},
                                       .fill_mode = ls::FillMode::constant,
                                       .fill_value = 3},
                 golden_augmentation::translated_constant);
    check_golden(ls::RandomZoom{.image = shape, .height_factor = {0.3, 0.3}},
                 golden_augmentation::zoomed_out);
    check_golden(ls::RandomZoom{.image = shape,
                                .height_factor = {-0.3, -0.3},
                                .width_factor = ls::FactorRange{-0.1, -0.1},
                                .fill_mode = ls::FillMode::nearest},
                 golden_augmentation::zoomed_in);
    check_golden(ls::RandomContrast{.image = shape, .factor = {0.6, 0.6}, .value_range = {0, 90}},
                 golden_augmentation::contrast);
  }
  TEST_CASE("what lies beyond the border") {
    const auto moved = [](ls::FillMode mode, double columns) {
      const ls::RandomTranslation function{.image = {1, 4, 1},
                                           .width_factor = {columns / 4, columns / 4},
                                           .fill_mode = mode,
                                           .interpolation = ls::Interpolation::nearest,
                                           .fill_value = 9};
      return changed_by(function, std::vector<float>{1, 2, 3, 4});
    };
    using Line = std::vector<float>;
    CHECK(moved(ls::FillMode::reflect, 3) == Line{3, 2, 1, 1});
    CHECK(moved(ls::FillMode::reflect, -2) == Line{3, 4, 4, 3});
    CHECK(moved(ls::FillMode::wrap, 3) == Line{2, 3, 4, 1});
    CHECK(moved(ls::FillMode::wrap, -1) == Line{2, 3, 4, 1});
    CHECK(moved(ls::FillMode::constant, 1) == Line{9, 1, 2, 3});
    CHECK(moved(ls::FillMode::nearest, -2) == Line{3, 4, 4, 4});
    CHECK(moved(ls::FillMode::nearest, 0) == Line{1, 2, 3, 4});
  }
  TEST_CASE("draws from all of the range, and from nothing else") {
    // A contrast of c makes of the pixels 10 and 30 the pixels 20 - 10 c and 20 + 10 c.
    double least = 9, most = -9;
    for (std::uint64_t key = 0; key < 500; ++key) {
      const auto x = changed_by(ls::RandomContrast{.image = {1, 2, 1}, .factor = 0.5},
                                std::vector<double>{10, 30}, key);
      least = std::min(least, (x[1] - x[0]) / 20);
      most = std::max(most, (x[1] - x[0]) / 20);
    }
    CHECK(least >= 0.5);
    CHECK(least < 0.52);
    CHECK(most <= 1.5);
    CHECK(most > 1.48);
  }
  TEST_CASE("noise has the mean 0 and the standard deviation that is wanted") {
    const std::vector<double> x =
        changed_by(ls::RandomNoise{.stddev = 3}, std::vector<double>(20'000));
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / 20'000;
    const double square = std::inner_product(x.begin(), x.end(), x.begin(), 0.0) / 20'000;
    CHECK(std::abs(mean) < 0.1);
    CHECK(std::abs(std::sqrt(square) - 3) < 0.1);
  }
  TEST_CASE("cutout: a square about every pixel, cut off at the border") {
    const ls::ImageShape small{3, 4, 2};
    std::set<std::vector<float>> expected, seen;
    for (int row = 0; row < 3; ++row)
      for (int column = 0; column < 4; ++column) {
        std::vector<float> x(small.size(), 1.0f);
        for (int r = std::max(row - 1, 0); r < std::min(row + 2, 3); ++r)
          for (int c = std::max(column - 1, 0); c < std::min(column + 2, 4); ++c)
            std::fill_n(x.begin() + (r * 4 + c) * 2, 2, 5.0f);
        expected.insert(x);
      }
    for (std::uint64_t key = 0; key < 500; ++key)
      seen.insert(changed_by(ls::Cutout{.image = small, .size = 3, .fill_value = 5},
                             std::vector<float>(24, 1.0f), key));
    CHECK(seen == expected);
    const auto all =
        changed_by(ls::Cutout{.image = small, .size = 100}, std::vector<float>(24, 1.0f));
    CHECK(std::count(all.begin(), all.end(), 0.0f) == 24);
  }
  TEST_CASE("the same stream for any number of workers, at any position") {
    check_stage(
        images()
            .shuffle(6)
            .map(ls::RandomRotation{.image = shape, .factor = 0.2})
            .map(ls::RandomTranslation{.image = shape, .height_factor = 0.3, .width_factor = 0.3})
            .map(ls::RandomZoom{.image = shape, .height_factor = 0.2})
            .map(ls::RandomContrast{.image = shape, .factor = 0.4})
            .map(ls::RandomNoise{.stddev = 0.1})
            .map(ls::Cutout{.image = shape, .size = 2})
            .repeat(2)
            .batch(5)
            .apply<ls::MixUp>(0.4));
  }
  TEST_CASE("bad arguments, and samples of another size") {
    CHECK(error_of(ls::RandomRotation{.image = shape, .factor = 1.5}) ==
          "RandomRotation: factor must be a range within [-1, 1], got [-1.5, 1.5]");
    CHECK(contains(error_of(ls::RandomTranslation{.image = shape, .height_factor = {0.2, 0.1}}),
                   "got [0.2, 0.1]"));
    CHECK(contains(error_of(ls::RandomTranslation{.image = shape, .width_factor = 2}),
                   "width_factor"));
    CHECK(contains(error_of(ls::RandomZoom{.image = shape, .height_factor = 2}), "height_factor"));
    CHECK(contains(error_of(ls::RandomZoom{.image = shape, .width_factor = ls::FactorRange(2)}),
                   "width_factor"));
    CHECK(contains(error_of(ls::RandomContrast{.image = shape,
                                               .factor = std::numeric_limits<double>::quiet_NaN()}),
                   "RandomContrast: factor"));
    CHECK(error_of(ls::RandomNoise{.stddev = -1}) ==
          "RandomNoise: stddev must be at least 0, got -1");
    CHECK(error_of(ls::Cutout{.image = shape}) == "Cutout: size must be at least 1, got 0");
    CHECK_THROWS_WITH_AS(
        (void)changed_by(ls::RandomZoom{.image = {2, 2, 1}}, golden_image<float>()),
        "RandomZoom: expected images of 2 x 2 x 1, got a sample of 40 elements", ls::DataError);
  }
  TEST_CASE("options are in the description") {
    CHECK(ls::RandomRotation{.image = shape, .factor = 0.1}.description() ==
          "RandomRotation(image=4 x 5 x 2, factor=[-0.1, 0.1], reflect, bilinear)");
    CHECK(ls::RandomTranslation{
              .image = shape, .height_factor = 0.1, .fill_mode = ls::FillMode::constant}
              .description() ==
          "RandomTranslation(image=4 x 5 x 2, height_factor=[-0.1, 0.1], width_factor=[0, 0], "
          "constant 0, bilinear)");
    CHECK(contains(
        ls::RandomZoom{.image = shape, .width_factor = ls::FactorRange(0, 1)}.description(),
        "[0, 1]"));
    CHECK(contains(ls::RandomContrast{.image = shape}.description(), "value_range=[0, 255]"));
    CHECK(contains(ls::Cutout{.image = shape, .size = 3}.description(), "size=3"));
  }
}

TEST_SUITE("MixUp") {
  const auto one_hot = [](const auto& in, auto& out) {
    out.x[0] = in.x[0];
    std::fill(out.y.begin(), out.y.end(), 0);
    out.y[static_cast<std::size_t>(in.y[0]) / 10] = 1;
  };

  TEST_CASE("blends sample and target with the same weight, with one other sample of the batch") {
    const auto mixed = numbers(8)
                           .map(one_hot, {.sample_size = 1, .target_size = 8})
                           .batch(8)
                           .apply<ls::MixUp>(1.0);
    const RowBatches rows = row_batches(mixed, {3, 0});
    REQUIRE(rows.size() == 1);
    std::vector<double> weights(8);
    std::set<std::size_t> others;
    for (std::size_t i = 0; i < 8; ++i) {
      const Row& row = rows[0][i];
      double sum = 0, blend = 0;
      for (std::size_t c = 0; c < 8; ++c) {
        sum += row[1 + c];
        blend += static_cast<double>(c) * row[1 + c];
        if (c != i && row[1 + c] > 0) others.insert(c);
      }
      CHECK(sum == doctest::Approx(1));
      CHECK(blend == doctest::Approx(row[0]));
      CHECK(std::count_if(row.begin() + 1, row.end(), [](double p) { return p > 0; }) <= 2);
    }
    CHECK(others.size() > 4);
    CHECK(row_batches(mixed, {3, 1}) != rows);
    CHECK(row_batches(numbers(8).batch(8).apply<ls::MixUp>(1.0, 5), {3, 0}) ==
          row_batches(numbers(8).batch(8).apply<ls::MixUp>(1.0, 5), {4, 0}));
  }
  TEST_CASE("the weights are of Beta(alpha, alpha)") {
    for (const double alpha : {0.05, 0.4, 1.0, 3.0}) {
      ls::RandomStream random(ls::RandomKey(7));
      double mean = 0, square = 0;
      for (int i = 0; i < 20'000; ++i) {
        const double w = ls::detail::symmetric_beta(random, alpha);
        REQUIRE(w >= 0);
        REQUIRE(w <= 1);
        mean += w / 20'000;
        square += w * w / 20'000;
      }
      CHECK(std::abs(mean - 0.5) < 0.02);
      CHECK(std::abs(square - mean * mean - 1 / (4 * (2 * alpha + 1))) < 0.01);
    }
  }
  TEST_CASE("a lone sample stays; bad arguments") {
    CHECK(row_batches(numbers(1).batch(4).apply<ls::MixUp>()) == RowBatches{{{0, 0}}});
    CHECK_THROWS_WITH_AS((void)numbers(1).batch(4).apply<ls::MixUp>(0.0),
                         "MixUp: alpha must be above 0, got 0", ls::ConfigurationError);
  }
}

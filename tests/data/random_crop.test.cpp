#include "lockstep/data/random_crop.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"

namespace ls = lockstep;

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

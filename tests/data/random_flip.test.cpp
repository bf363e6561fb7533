#include "lockstep/data/random_flip.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <vector>

#include "data/support.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/random_crop.hpp"
#include "lockstep/data/tensor_slices.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

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

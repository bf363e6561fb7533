#include "lockstep/data/generator.hpp"

#include <doctest/doctest.h>

#include "data/support.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_SUITE_BEGIN("Keras: dataset pipeline: from_generator");

TEST_CASE(
    "from_generator: a function makes each sample from its number, and later stages work on them") {
  auto dataset = ls::from_generator(
                     [](auto& sample) {
                       CHECK(sample.x[1] == 0);
                       using T = std::remove_reference_t<decltype(sample.x[0])>;
                       sample.x[0] = static_cast<T>(sample.index);
                       sample.y[0] = static_cast<T>(2 * sample.index);
                     },
                     {.size = 30, .sample_size = 2, .target_size = 1})
                     .shuffle(30)
                     .batch(20);
  static_assert(ls::Dataset<decltype(dataset)>);
  CHECK(dataset.sample_size() == 2);
  CHECK(dataset.target_size() == 1);
  CHECK(dataset.cardinality() == 2);
  dataset.begin({});
  Indices seen;
  while (dataset.next() > 0) {
    const Read<float> read(dataset);
    for (std::size_t i = 0; i < read.x.samples(); ++i) {
      CHECK(read.x(i, 0) == static_cast<float>(dataset.sample_indices()[i]));
      CHECK(read.y(i, 0) == 2 * read.x(i, 0));
      seen.push_back(dataset.sample_indices()[i]);
    }
  }
  CHECK(sorted(seen) == range(0, 30));
}

TEST_SUITE_END();

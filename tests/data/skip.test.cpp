#include "lockstep/data/skip.hpp"

#include <doctest/doctest.h>

#include "data/support.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_SUITE("Keras: dataset pipeline: skip") {
  TEST_CASE("all but the first samples; -1 leaves none") {
    CHECK(samples_of(numbers(5).skip(3)) == Indices{3, 4});
    CHECK(samples_of(numbers(5).skip(0)) == range(0, 5));
    CHECK(samples_of(numbers(5).skip(5)).empty());
    CHECK(samples_of(numbers(5).skip(9)).empty());
    CHECK(samples_of(numbers(5).skip(-1)).empty());
  }

  TEST_CASE("cardinality") {
    CHECK(numbers(5).skip(3).cardinality() == 2);
    CHECK(numbers(5).skip(9).cardinality() == 0);
    CHECK(numbers(5).skip(-1).cardinality() == 0);
    CHECK(numbers(5).repeat().skip(9).cardinality() == ls::infinite_cardinality);
    CHECK(numbers(5).repeat().skip(-1).cardinality() == 0);
  }

  TEST_CASE("after batch, all but the first batches") {
    CHECK(batches_of(numbers(5).batch(2).skip(1)) == Batches{{2, 3}, {4}});
  }

  TEST_CASE("take and skip divide a shuffled dataset") {
    const auto shuffled = numbers(20).shuffle(20, 1, false);
    Indices parts = samples_of(shuffled.take(15));
    const Indices others = samples_of(shuffled.skip(15));
    parts.insert(parts.end(), others.begin(), others.end());
    CHECK(parts == samples_of(shuffled));
  }

  TEST_CASE("each repetition skips anew, without end over nothing ends") {
    CHECK(samples_of(numbers(3).skip(1).repeat(2)) == Indices{1, 2, 1, 2});
    CHECK(samples_of(numbers(3).repeat().skip(-1)).empty());
  }

  TEST_CASE("a count below -1 is refused") {
    CHECK(
        contains(message_of<ls::ConfigurationError>([] { (void)numbers(3).skip(-2); }), "got -2"));
  }
}

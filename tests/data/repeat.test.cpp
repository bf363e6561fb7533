#include "lockstep/data/repeat.hpp"

#include <doctest/doctest.h>

#include "data/support.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_SUITE("Keras: dataset pipeline: repeat") {
  TEST_CASE("a number of times") {
    CHECK(samples_of(numbers(3).repeat(2)) == Indices{0, 1, 2, 0, 1, 2});
    CHECK(samples_of(numbers(3).repeat(1)) == Indices{0, 1, 2});
    CHECK(numbers(3).repeat(2).cardinality() == 6);
  }

  TEST_CASE("0 is empty") {
    CHECK(samples_of(numbers(3).repeat(0)).empty());
    CHECK(numbers(3).repeat(0).cardinality() == 0);
    CHECK(samples_of(numbers(3).repeat(0).repeat()).empty());
  }

  TEST_CASE("without a count, or with -1, it is infinite") {
    for (const auto& pipeline : {numbers(3).repeat(), numbers(3).repeat(-1)}) {
      CHECK(pipeline.cardinality() == ls::infinite_cardinality);
      CHECK(samples_of(pipeline, {}, 7) == Indices{0, 1, 2, 0, 1, 2, 0});
    }
    CHECK(samples_of(numbers(2).repeat().repeat(3), {}, 5) == Indices{0, 1, 0, 1, 0});
    CHECK(numbers(2).repeat().repeat(3).cardinality() == ls::infinite_cardinality);
    CHECK(numbers(2).repeat().repeat(0).cardinality() == 0);
  }

  TEST_CASE("an infinite repetition of an empty dataset ends") {
    CHECK(samples_of(numbers(0).repeat()).empty());
    CHECK(numbers(0).repeat().cardinality() == 0);
    CHECK(samples_of(numbers(3).skip(3).repeat()).empty());
  }

  TEST_CASE("repetitions of batches keep the partial batch of each") {
    CHECK(batches_of(numbers(3).batch(2).repeat(2)) == Batches{{0, 1}, {2}, {0, 1}, {2}});
    CHECK(batches_of(numbers(3).repeat(2).batch(2)) == Batches{{0, 1}, {2, 0}, {1, 2}});
  }

  TEST_CASE("a count below -1 is refused") {
    CHECK(contains(message_of<ls::ConfigurationError>([] { (void)numbers(3).repeat(-2); }),
                   "got -2"));
  }

  TEST_CASE("a length beyond all numbers counts as infinite") {
    CHECK(numbers(3).repeat(std::int64_t{1} << 62).cardinality() == ls::infinite_cardinality);
  }
}

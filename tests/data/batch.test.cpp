#include "lockstep/data/batch.hpp"

#include <doctest/doctest.h>

#include "data/support.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_SUITE("Keras: dataset pipeline: batch") {
  TEST_CASE("the last partial batch is kept") {
    CHECK(batches_of(numbers(5).batch(2)) == Batches{{0, 1}, {2, 3}, {4}});
    CHECK(numbers(5).batch(2).cardinality() == 3);
    CHECK(batches_of(numbers(4).batch(2)) == Batches{{0, 1}, {2, 3}});
    CHECK(numbers(4).batch(2).cardinality() == 2);
    CHECK(batches_of(numbers(3).batch(5)) == Batches{{0, 1, 2}});
  }

  TEST_CASE("with drop_remainder it is left out") {
    CHECK(batches_of(numbers(5).batch(2, true)) == Batches{{0, 1}, {2, 3}});
    CHECK(numbers(5).batch(2, true).cardinality() == 2);
    CHECK(batches_of(numbers(3).batch(5, true)).empty());
    CHECK(numbers(3).batch(5, true).cardinality() == 0);
    CHECK(batches_of(numbers(3).batch(2, true).repeat(2)) == Batches{{0, 1}, {0, 1}});
  }

  TEST_CASE("nothing to batch") {
    CHECK(batches_of(numbers(0).batch(2)).empty());
    CHECK(numbers(0).batch(2).cardinality() == 0);
  }

  TEST_CASE("without end") {
    CHECK(numbers(5).repeat().batch(2).cardinality() == ls::infinite_cardinality);
    CHECK(batches_of(numbers(3).repeat().batch(2), {}, 3) == Batches{{0, 1}, {2, 0}, {1, 2}});
  }

  TEST_CASE("after the end, next says so again and again") {
    auto dataset = numbers(3).batch(2, true);
    dataset.begin({});
    CHECK(dataset.next() == 2);
    for (int i = 0; i < 3; ++i) {
      CHECK(dataset.next() == 0);
      CHECK(dataset.sample_indices().empty());
      CHECK(dataset.position() == 1);
    }
  }

  TEST_CASE("a size of 0 is an error") {
    CHECK(contains(message_of<ls::ConfigurationError>([] { (void)numbers(3).batch(0); }), "got 0"));
    CHECK(
        contains(message_of<ls::ConfigurationError>([] { (void)numbers(3).batch(-4); }), "got -4"));
  }
}

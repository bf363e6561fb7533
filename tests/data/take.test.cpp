#include "lockstep/data/take.hpp"

#include <doctest/doctest.h>

#include "data/support.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_SUITE("Keras: dataset pipeline: take") {
  TEST_CASE("the first samples; -1 takes all") {
    CHECK(samples_of(numbers(5).take(3)) == Indices{0, 1, 2});
    CHECK(samples_of(numbers(5).take(0)).empty());
    CHECK(samples_of(numbers(5).take(9)) == range(0, 5));
    CHECK(samples_of(numbers(5).take(-1)) == range(0, 5));
    CHECK(samples_of(numbers(2).repeat().take(5)) == Indices{0, 1, 0, 1, 0});
  }

  TEST_CASE("cardinality") {
    CHECK(numbers(5).take(3).cardinality() == 3);
    CHECK(numbers(5).take(9).cardinality() == 5);
    CHECK(numbers(5).take(-1).cardinality() == 5);
    CHECK(numbers(5).repeat().take(9).cardinality() == 9);
    CHECK(numbers(5).repeat().take(-1).cardinality() == ls::infinite_cardinality);
    CHECK(numbers(0).repeat().take(9).cardinality() == 0);
  }

  TEST_CASE("after batch, the first batches") {
    CHECK(batches_of(numbers(5).batch(2).take(2)) == Batches{{0, 1}, {2, 3}});
    CHECK(numbers(5).batch(2).take(2).cardinality() == 2);
  }

  TEST_CASE("take before shuffle and after it") {
    CHECK(sorted(samples_of(numbers(20).take(5).shuffle(20))) == range(0, 5));
    CHECK(sorted(samples_of(numbers(20).shuffle(20, 1).take(5))) != range(0, 5));
  }

  TEST_CASE("each repetition takes anew") {
    CHECK(samples_of(numbers(5).take(2).repeat(2)) == Indices{0, 1, 0, 1});
  }

  TEST_CASE("a count below -1 is refused") {
    CHECK(
        contains(message_of<ls::ConfigurationError>([] { (void)numbers(3).take(-2); }), "got -2"));
  }
}

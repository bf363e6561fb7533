#include "lockstep/data/shuffle.hpp"

#include <doctest/doctest.h>

#include <array>

#include "data/support.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_SUITE("Keras: dataset pipeline: shuffle") {
  TEST_CASE("a buffer filled from upstream: every sample comes once, in another order") {
    for (const int buffer : {1, 2, 7, 20, 1000}) {
      const Indices order = samples_of(numbers(20).shuffle(buffer));
      CHECK(sorted(order) == range(0, 20));
      CHECK((order == range(0, 20)) == (buffer == 1));
    }
  }

  TEST_CASE("refills the buffer: with n places, none comes more than n - 1 places early") {
    // The first n - 1 + k samples are all that can have come until k have been handed out.
    const Indices order = samples_of(numbers(500).shuffle(10, 3));
    for (std::size_t k = 0; k < order.size(); ++k)
      CHECK(order[k] < static_cast<std::int64_t>(k) + 10);
  }

  TEST_CASE("picks uniformly from the buffer: each sample is at each place equally often") {
    std::array<std::array<int, 5>, 5> count{};
    constexpr int passes = 5000;
    for (int pass = 0; pass < passes; ++pass) {
      const Indices order = samples_of(numbers(5).shuffle(5), {11, pass});
      for (std::size_t place = 0; place < 5; ++place)
        ++count[place][static_cast<std::size_t>(order[place])];
    }
    // 1000 expected, standard deviation 28.
    for (const auto& place : count)
      for (const int n : place) CHECK(std::abs(n - 1000) < 150);
  }

  TEST_CASE("the same seed gives the same order, whatever the run's seed") {
    const auto order = [](std::uint64_t seed, std::uint64_t run) {
      return samples_of(numbers(20).shuffle(20, seed), {run, 0});
    };
    CHECK(order(1, 5) == order(1, 5));
    CHECK(order(1, 5) == order(1, 6));
    CHECK(order(1, 5) != order(2, 5));
  }

  TEST_CASE("without a seed, the run's seed") {
    const auto pipeline = numbers(20).shuffle(20);
    CHECK(samples_of(pipeline, {5, 0}) == samples_of(pipeline, {5, 0}));
    CHECK(samples_of(pipeline, {5, 0}) != samples_of(pipeline, {6, 0}));
  }

  TEST_CASE(
      "reshuffled in each iteration; with reshuffle_each_iteration off, the same order in each "
      "epoch") {
    const auto reshuffled = numbers(20).shuffle(20, 1);
    CHECK(samples_of(reshuffled, {0, 0}) != samples_of(reshuffled, {0, 1}));
    CHECK(samples_of(reshuffled, {0, 1}) == samples_of(reshuffled, {0, 1}));
    const auto fixed = numbers(20).shuffle(20, 1, false);
    CHECK(samples_of(fixed, {0, 0}) == samples_of(fixed, {0, 1}));
    const auto fixed_by_run = numbers(20).shuffle(20, std::nullopt, false);
    CHECK(samples_of(fixed_by_run, {3, 0}) == samples_of(fixed_by_run, {3, 1}));
    CHECK(samples_of(fixed_by_run, {3, 0}) != samples_of(fixed_by_run, {4, 0}));
  }

  TEST_CASE("shuffle().repeat() keeps epochs apart and shuffles each anew") {
    const Indices order = samples_of(numbers(20).shuffle(20, 1).repeat(3));
    const Indices a = slice(order, 0, 20);
    const Indices b = slice(order, 20, 40);
    const Indices c = slice(order, 40, 60);
    for (const Indices& epoch : {a, b, c}) CHECK(sorted(epoch) == range(0, 20));
    CHECK(a != b);
    CHECK(b != c);
    CHECK(a != c);

    const Indices fixed = samples_of(numbers(20).shuffle(20, 1, false).repeat(2));
    CHECK(slice(fixed, 0, 20) == slice(fixed, 20, 40));
  }

  TEST_CASE("repeat().shuffle() blends epochs") {
    const Indices order = samples_of(numbers(20).repeat(3).shuffle(60, 1));
    Indices thrice;
    for (std::int64_t i = 0; i < 20; ++i) thrice.insert(thrice.end(), {i, i, i});
    CHECK(sorted(order) == thrice);
    CHECK(sorted(slice(order, 0, 20)) != range(0, 20));
  }

  TEST_CASE("two shuffles of one pipeline differ") {
    // With equal keys, shuffling twice would square the permutation; with independent ones it does
    // not.
    const Indices once = samples_of(numbers(20).shuffle(20));
    const Indices twice = samples_of(numbers(20).shuffle(20).shuffle(20));
    Indices squared;
    for (const std::int64_t i : once) squared.push_back(once[static_cast<std::size_t>(i)]);
    CHECK(twice != once);
    CHECK(twice != squared);
  }

  TEST_CASE("after batch, batches are shuffled as a whole") {
    const Batches batches = batches_of(numbers(10).batch(3).shuffle(4, 2));
    CHECK(batches.size() == 4);
    CHECK(sorted(flat(batches)) == range(0, 10));
    for (const Indices& batch : batches)
      CHECK(batch == range(batch[0], batch[0] + (batch[0] == 9 ? 1 : 3)));
    CHECK(batches != batches_of(numbers(10).batch(3)));
  }

  TEST_CASE("nothing to shuffle") { CHECK(samples_of(numbers(0).shuffle(10)).empty()); }

  TEST_CASE("a buffer of 0 is refused") {
    CHECK(
        contains(message_of<ls::ConfigurationError>([] { (void)numbers(3).shuffle(0); }), "got 0"));
  }
}

#include "lockstep/data/order.hpp"

#include <doctest/doctest.h>

#include <array>

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

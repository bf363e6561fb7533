#include "lockstep/core/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <vector>

namespace ls = lockstep;
using Block = std::array<std::uint32_t, 4>;

static_assert(std::uniform_random_bit_generator<ls::RandomStream>);

// The known answers of the Random123 distribution (kat_vectors, philox 4x32, 10 rounds).
static_assert(ls::philox4x32({0, 0, 0, 0}, {0, 0}) ==
              Block{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
static_assert(ls::philox4x32({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF},
                             {0xFFFFFFFF, 0xFFFFFFFF}) ==
              Block{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD});
static_assert(ls::philox4x32({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344},
                             {0xA4093822, 0x299F31D0}) ==
              Block{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});

TEST_CASE("RandomStream is the Philox sequence of its key") {
  ls::RandomStream random{ls::RandomKey(0)};
  for (const std::uint32_t expected : {0x6627E8D5U, 0xE169C58DU, 0xBC57AC4CU, 0x9B00DBD8U})
    CHECK(random() == expected);
  CHECK(random() == ls::philox4x32({1, 0, 0, 0}, {0, 0})[0]);

  ls::RandomStream wide{ls::RandomKey(0x299F31D0A4093822)};
  CHECK(wide() == ls::philox4x32({0, 0, 0, 0}, {0xA4093822, 0x299F31D0})[0]);
}

TEST_CASE("derived keys differ in every dimension and in their order") {
  std::set<std::uint64_t> keys;
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (std::uint64_t a = 0; a < 10; ++a)
      for (std::uint64_t b = 0; b < 10; ++b)
        keys.insert(ls::RandomKey(seed).fold_in(a).fold_in(b).value());
  CHECK(keys.size() == 1000);
  CHECK(ls::RandomKey(1).fold_in(0).value() != ls::RandomKey(1).value());
  CHECK(ls::RandomKey(0).fold_in(1ULL << 32).value() != ls::RandomKey(0).fold_in(1).value());
}

TEST_CASE("uniform: in [0, 1), mean 1/2, variance 1/12") {
  ls::RandomStream random{ls::RandomKey(1)};
  const int n = 100'000;
  double sum = 0, squares = 0, smallest = 1, largest = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random.uniform();
    sum += x;
    squares += x * x;
    smallest = std::min(smallest, x);
    largest = std::max(largest, x);
  }
  CHECK(smallest >= 0);
  CHECK(largest < 1);
  CHECK(std::abs(sum / n - 0.5) < 5 * std::sqrt(1.0 / 12 / n));
  CHECK(std::abs(squares / n - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / n));
}

TEST_CASE("uniform: within the given range") {
  ls::RandomStream random{ls::RandomKey(2)};
  for (int i = 0; i < 1000; ++i) {
    const double x = random.uniform(-0.25, 0.75);
    CHECK(x >= -0.25);
    CHECK(x < 0.75);
  }
}

TEST_CASE(
    "normal: mean 0, standard deviation 1, the tails of the normal distribution, never infinite") {
  ls::RandomStream random{ls::RandomKey(3)};
  const int n = 100'000;
  double sum = 0, squares = 0;
  int beyond_two = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal();
    REQUIRE(std::isfinite(x));
    sum += x;
    squares += x * x;
    beyond_two += std::abs(x) > 2;
  }
  CHECK(std::abs(sum / n) < 5 / std::sqrt(n));
  CHECK(std::abs(squares / n - 1) < 5 * std::sqrt(2.0 / n));
  CHECK(std::abs(beyond_two / static_cast<double>(n) - 0.0455) < 5 * std::sqrt(0.0455 / n));
}

TEST_CASE("below: in range and uniform") {
  ls::RandomStream random{ls::RandomKey(4)};
  for (int i = 0; i < 100; ++i) CHECK(random.below(1) == 0);

  std::vector<double> counts(7);
  const int n = 70'000;
  for (int i = 0; i < n; ++i) ++counts.at(random.below(7));
  double chi_squared = 0;
  for (const double count : counts)
    chi_squared += (count - n / 7.0) * (count - n / 7.0) / (n / 7.0);
  CHECK(chi_squared < 22.5);  // 6 degrees of freedom, 0.1 %
}

TEST_CASE("below: no bias where the bound is not a divisor of 2^64") {
  // With bound 3/4 * 2^64, a plain remainder would give values below 2^62 twice as often as they
  // should be.
  const std::uint64_t bound = 3ULL << 62;
  ls::RandomStream random{ls::RandomKey(5)};
  int low = 0;
  const int n = 30'000;
  for (int i = 0; i < n; ++i) {
    const std::uint64_t x = random.below(bound);
    REQUIRE(x < bound);
    low += x < 1ULL << 62;
  }
  CHECK(std::abs(low / static_cast<double>(n) - 1.0 / 3) < 5 * std::sqrt(2.0 / 9 / n));

  const std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  for (int i = 0; i < 100; ++i) CHECK(random.below(largest) < largest);
}

#include "lockstep/kernels/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

std::vector<std::uint64_t> keys() {
  std::vector<std::uint64_t> keys;
  for (std::size_t sample = 0; sample < ls::batch_multiple; ++sample)
    keys.push_back(ls::RandomKey(5).fold_in(sample).value());
  keys.front() = ~std::uint64_t{0};  // its key schedule wraps at once
  return keys;
}

/// Compares with a scalar stream for each sample; elements of the gaps between features stay as
/// they are.
template <class T>
void check(std::size_t features, std::size_t stride, std::uint64_t threshold) {
  CAPTURE(features);
  CAPTURE(threshold);
  const std::vector<std::uint64_t> of_samples = keys();
  std::vector<T> expected(features * stride, T(7));
  std::size_t kept = 0;
  for (std::size_t sample = 0; sample < ls::batch_multiple; ++sample) {
    ls::RandomStream stream{ls::RandomKey(of_samples[sample])};
    for (std::size_t f = 0; f < features; ++f) {
      const bool keep = stream() >= threshold;
      expected[f * stride + sample] = keep ? T(1.25) : T(0);
      kept += keep;
    }
  }
  if (features > 100 && threshold == std::uint64_t{1} << 31)
    CHECK((kept > features && kept < 15 * features));
  for_each_instruction_set([&] {
    std::vector<T> mask(features * stride, T(7));
    ls::kernels::dispatch(ls::kernels::RandomMask<T>{of_samples.data(), threshold, T(1.25),
                                                     features, stride, mask.data()});
    CHECK(mask == expected);
  });
}

}  // namespace

TEST_CASE("RandomMask: each sample has the numbers of its own stream, on every instruction set") {
  for (const std::size_t features : {1u, 3u, 4u, 5u, 130u})
    for (const std::uint64_t threshold :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 31, (std::uint64_t{1} << 32) - 1,
          std::uint64_t{1} << 32}) {
      check<float>(features, ls::batch_multiple, threshold);
      check<double>(features, 3 * ls::batch_multiple, threshold);
    }
}

TEST_CASE(
    "RandomNormal: Box's and Muller's numbers of each stream, with the moments of a normal "
    "distribution") {
  std::vector<std::uint64_t> keys;
  for (std::size_t sample = 0; sample < ls::batch_multiple; ++sample)
    keys.push_back(ls::RandomKey(5).fold_in(sample).value());
  constexpr std::size_t features = 1001, stride = 32;
  std::vector<double> expected(features * stride, 7.0);
  for (std::size_t sample = 0; sample < ls::batch_multiple; ++sample) {
    ls::RandomStream stream{ls::RandomKey(keys[sample])};
    for (std::size_t f = 0; f < features; f += 2) {
      const double radius = std::sqrt(-2 * std::log((stream() + 1.0) * 0x1p-32));
      const double angle = 2 * std::numbers::pi * (stream() * 0x1p-32);
      expected[f * stride + sample] = 3 + 0.5 * radius * std::cos(angle);
      if (f + 1 < features)
        expected[(f + 1) * stride + sample] = 3 + 0.5 * radius * std::sin(angle);
    }
  }
  lockstep_test::for_each_instruction_set([&] {
    std::vector<double> got(features * stride, 7.0);
    ls::kernels::dispatch(
        ls::kernels::RandomNormal<double>{keys.data(), 3, 0.5, features, stride, got.data()});
    double worst = 0, sum = 0, squares = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      worst = std::max(worst, std::abs(got[i] - expected[i]));
      if (i % stride >= ls::batch_multiple) continue;
      sum += (got[i] - 3) / 0.5;
      squares += std::pow((got[i] - 3) / 0.5, 2);
    }
    CHECK(worst < 1e-11);
    CHECK(std::abs(sum / 16016) < 0.03);
    CHECK(std::abs(squares / 16016 - 1) < 0.04);
  });
}

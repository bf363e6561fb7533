#include "lockstep/kernels/random_normal.hpp"

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

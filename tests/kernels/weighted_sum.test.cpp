#include "lockstep/kernels/sequences.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <random>

#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::random_array;

TEST_CASE_TEMPLATE("weighted sums over steps, and their gradient", T, float, double) {
  lockstep_test::for_each_instruction_set([] {
    constexpr std::size_t steps = 5, batch = 32;
    std::mt19937 random(6);
    const Array<T> x = random_array<T>(steps * batch, random),
                   weights = random_array<T>(steps * batch, random);
    const Array<T> dy = random_array<T>(batch, random), y(batch, T(7)), dx(steps * batch, T(7));
    weights[3] = 0;
    x[3] = std::numeric_limits<T>::quiet_NaN();  // does not count
    kernels::dispatch(kernels::WeightedSum<T>{steps, batch, x.data(), weights.data(), y.data()});
    kernels::dispatch(
        kernels::WeightedSumGradient<T>{steps, batch, dy.data(), weights.data(), dx.data()});
    for (std::size_t b = 0; b < batch; ++b) {
      T sum = 0;
      for (std::size_t t = 0; t < steps; ++t) {
        const std::size_t i = t * batch + b;
        if (i != 3) sum += x[i] * weights[i];
        CHECK(dx[i] == weights[i] * dy[b]);
      }
      CHECK(std::abs(y[b] - sum) < T(1e-5));
    }
  });
}

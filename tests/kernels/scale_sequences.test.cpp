#include "lockstep/kernels/scale_sequences.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <random>

#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::random_array;

TEST_CASE_TEMPLATE("one factor for each feature of each sequence", T, float, double) {
  lockstep_test::for_each_instruction_set([] {
    for (const std::size_t steps : {1u, 5u, 16u, 19u}) {
      constexpr std::size_t features = 2, samples = 3, batch = 16;
      const std::size_t stride = (samples * steps + 15) / 16 * 16;
      std::mt19937 random(6);
      const Array<T> x = random_array<T>(features * stride, random),
                     factors = random_array<T>(features * batch, random);
      const Array<T> y(features * stride, T(7));
      kernels::dispatch(kernels::ScaleSequences<T>{features, samples, steps, stride, batch,
                                                   x.data(), factors.data(), y.data()});
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < y.size(); ++i) {
        const std::size_t f = i / stride, row = i % stride;
        wrong += y[i] != (row < samples * steps ? x[i] * factors[f * batch + row / steps] : T(0));
      }
      CHECK(wrong == 0);
    }
  });
}

#include "lockstep/kernels/sequences.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <random>
#include <vector>

#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::random_array;

TEST_CASE("sequence layout: there and back, the padding becomes zero") {
  for (const std::size_t samples : {0U, 1U, 5U, 33U}) {
    const kernels::SequenceLayout size{.samples = samples,
                                       .positions = 19,
                                       .features = 3,
                                       .row_stride = (samples * 19 + 15) / 16 * 16,
                                       .sample_stride = (samples + 15) / 16 * 16};
    std::vector<float> by_samples(19 * 3 * size.sample_stride), by_rows(3 * size.row_stride, -1),
        back(by_samples);
    for (std::size_t f = 0; f < 19 * 3; ++f)
      for (std::size_t s = 0; s < samples; ++s)
        by_samples[f * size.sample_stride + s] = static_cast<float>(f * 100 + s + 1);
    kernels::samples_to_rows(size, by_samples.data(), by_rows.data());
    for (std::size_t f = 0; f < 3; ++f)
      for (std::size_t row = 0; row < size.row_stride; ++row) {
        const std::size_t s = row / 19, t = row % 19;
        const float expected = s < samples ? by_samples[(t * 3 + f) * size.sample_stride + s] : 0;
        REQUIRE(by_rows[f * size.row_stride + row] == expected);
      }
    for (float& value : back) value = -1;
    kernels::rows_to_samples(size, by_rows.data(), back.data());
    CHECK(back == by_samples);
  }
}

TEST_CASE("sequences become longer and shorter at their ends") {
  const std::vector<int> from{1, 2, 3, 4, 5, 6, 0, 0};  // two sequences of three steps
  std::vector<int> longer(12, 7), shorter(4, 7);
  kernels::shift_sequences<int>({.features = 1,
                                 .samples = 2,
                                 .from_steps = 3,
                                 .from_stride = 8,
                                 .to_steps = 5,
                                 .to_stride = 12,
                                 .pad = 1},
                                from.data(), longer.data());
  CHECK(longer == std::vector<int>{0, 1, 2, 3, 0, 0, 4, 5, 6, 0, 0, 0});
  kernels::shift_sequences<int>({.features = 1,
                                 .samples = 2,
                                 .from_steps = 3,
                                 .from_stride = 8,
                                 .to_steps = 1,
                                 .to_stride = 4,
                                 .skip = 2},
                                from.data(), shorter.data());
  CHECK(shorter == std::vector<int>{3, 6, 0, 0});
}

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

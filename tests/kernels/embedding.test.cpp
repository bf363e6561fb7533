#include "lockstep/kernels/embedding.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <random>

#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::for_each_instruction_set;
using lockstep_test::random_array;

TEST_CASE_TEMPLATE("rows of a table: gathered, and their gradients scattered in order", T, float,
                   double) {
  for_each_instruction_set([] {
    constexpr std::size_t vocabulary = 11;
    std::mt19937 random(1);
    for (const std::size_t width : {1u, 16u, 21u})
      for (const std::size_t count : {0u, 5u, 16u, 33u}) {
        CAPTURE(width);
        CAPTURE(count);
        const std::size_t stride = lockstep::padded_batch(count);
        const Array<T> table = random_array<T>(vocabulary * width, random), ids(count);
        for (T& id : ids) id = static_cast<T>(random() % vocabulary);
        if (count > 0)
          ids[0] = T(vocabulary - 1);  // the table's last row: nothing behind it is read
        const Array<T> y(width * stride, T(7)),
            gradient = random_array<T>(vocabulary * width, random);
        kernels::dispatch(
            kernels::GatherRows<T>{table.data(), width, ids.data(), count, stride, y.data()});
        Array<T> dy = random_array<T>(width * stride, random), expected(gradient.size());
        std::copy(gradient.begin(), gradient.end(), expected.begin());
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < stride; ++i)
          for (std::size_t d = 0; d < width; ++d) {
            const std::size_t row = i < count ? static_cast<std::size_t>(ids[i]) : 0;
            wrong += y[d * stride + i] != (i < count ? table[row * width + d] : T(0));
            if (i < count) expected[row * width + d] += dy[d * stride + i];
          }
        CHECK(wrong == 0);
        kernels::dispatch(
            kernels::ScatterRows<T>{dy.data(), ids.data(), count, stride, width, gradient.data()});
        CHECK(std::equal(gradient.begin(), gradient.end(), expected.begin()));
      }
  });
}

TEST_CASE_TEMPLATE("positions: numbers added to each sequence, and their gradients", T, float,
                   double) {
  for_each_instruction_set([] {
    std::mt19937 random(1);
    for (const std::size_t positions : {1u, 5u, 16u, 19u})
      for (const std::size_t samples : {0u, 3u}) {
        CAPTURE(positions);
        CAPTURE(samples);
        constexpr std::size_t features = 3;
        const kernels::PositionSize size{samples, positions, features,
                                         lockstep::padded_batch(samples * positions),
                                         lockstep::padded_batch(positions)};
        const Array<T> x = random_array<T>(features * size.stride, random), y(x.size(), T(7));
        const Array<T> offsets = random_array<T>(features * size.step, random),
                       sums(features * size.step, T(7));
        kernels::dispatch(kernels::AddPositions<T>{size, x.data(), offsets.data(), y.data()});
        kernels::dispatch(kernels::SumPositions<T>{size, x.data(), sums.data()});
        std::size_t wrong = 0;
        for (std::size_t f = 0; f < features; ++f) {
          for (std::size_t i = 0; i < size.stride; ++i) {
            const T added = i < samples * positions ? offsets[f * size.step + i % positions] : T(0);
            wrong += y[f * size.stride + i] != x[f * size.stride + i] + added;
          }
          for (std::size_t t = 0; t < positions; ++t) {
            T sum = 0;
            for (std::size_t s = 0; s < samples; ++s) sum += x[f * size.stride + s * positions + t];
            wrong += sums[f * size.step + t] != sum;
          }
        }
        CHECK(wrong == 0);
      }
  });
}

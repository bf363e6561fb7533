#include "lockstep/kernels/transpose.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <random>

#include "lockstep/kernels/dispatch.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::for_each_instruction_set;
using lockstep_test::random_array;

TEST_CASE_TEMPLATE("transpose: masked delta, panels, padding", T, float, double) {
  for_each_instruction_set([] {
    std::mt19937 random(1);
    for (const std::size_t rows : {1u, 17u, 64u, 70u}) {
      CAPTURE(rows);
      const std::size_t columns = 32;
      const Array<T> dy = random_array<T>(rows * columns, random),
                     y = random_array<T>(rows * columns, random);
      const Array<T> to(kernels::transposed_size(rows, columns), T(7)),
          masked(rows * columns, T(7));
      const kernels::Panels panels = kernels::transposed_panels(rows, columns);
      kernels::dispatch(kernels::Transpose<T>{
          {dy.data(), y.data(), T(0), masked.data()}, rows, columns, to.data(), panels});
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < kernels::padded_columns(rows); ++i)
        for (std::size_t j = 0; j < columns; ++j) {
          const std::size_t place = i * columns + j;
          const T expected = i >= rows || y[place] <= T(0) ? T(0) : dy[place];
          wrong += to[panels.offset(i) + j * panels.step] != expected;
          if (i < rows) wrong += masked[place] != expected;
        }
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("transpose: without a minimum the delta is dy") {
  const Array<float> dy(16, -2.0F), to(kernels::transposed_size(1, 16), 7.0F);
  kernels::dispatch(kernels::Transpose<float>{
      {dy.data(), dy.data()}, 1, 16, to.data(), kernels::transposed_panels(1, 16)});
  CHECK(to[0] == -2);
}

TEST_CASE("transpose: rows may lie further apart than they are long") {
  constexpr std::size_t columns = 16, row_step = 48;
  std::mt19937 random(1);
  const Array<float> dy = random_array<float>(row_step + columns, random);
  const Array<float> to(kernels::transposed_size(2, columns), 7.0F);
  kernels::dispatch(kernels::Transpose<float>{{dy.data(), dy.data()},
                                              2,
                                              columns,
                                              to.data(),
                                              kernels::transposed_panels(2, columns),
                                              row_step});
  for (std::size_t j = 0; j < columns; ++j) CHECK(to[j * 16 + 1] == dy[row_step + j]);
}

TEST_CASE_TEMPLATE("transpose of a part: any size, rows filled up with zeros, nothing else touched",
                   T, float, double) {
  for_each_instruction_set([] {
    std::mt19937 random(1);
    for (const std::size_t rows : {1u, 16u, 17u})
      for (const std::size_t columns : {1u, 7u, 32u, 35u})
        for (const std::size_t more : {0u, 3u}) {
          CAPTURE(rows);
          CAPTURE(columns);
          const std::size_t from_step = columns + 2, to_columns = rows + more,
                            to_step = to_columns + 1;
          const Array<T> from = random_array<T>((rows - 1) * from_step + columns, random);
          const Array<T> to(columns * to_step, T(7));
          kernels::dispatch(kernels::TransposePart<T>{from.data(), rows, columns, from_step,
                                                      to.data(), to_columns, to_step});
          std::size_t wrong = 0;
          for (std::size_t j = 0; j < columns; ++j)
            for (std::size_t i = 0; i < to_step; ++i) {
              const T expected = i < rows ? from[i * from_step + j] : i < to_columns ? T(0) : T(7);
              wrong += to[j * to_step + i] != expected;
            }
          CHECK(wrong == 0);
        }
  });
}

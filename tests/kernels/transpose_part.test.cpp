#include "lockstep/kernels/transpose_part.hpp"

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

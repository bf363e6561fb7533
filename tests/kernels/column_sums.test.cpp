#include "lockstep/kernels/column_sums.hpp"

#include <doctest/doctest.h>

#include <cstddef>

#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/transpose.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::for_each_instruction_set;
using lockstep_test::random_array;

TEST_CASE_TEMPLATE("column sums: added to what is there, columns in panels", T, float, double) {
  for_each_instruction_set([] {
    const std::size_t rows = 48, columns = 70;
    const kernels::Panels panels = kernels::transposed_panels(columns, rows);
    const Array<T> from(kernels::transposed_size(columns, rows), T(0)), sums(columns, T(3));
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t j = 0; j < columns; ++j)
        from[panels.offset(j) + row * panels.step] = static_cast<T>(j + row);
    kernels::dispatch(kernels::ColumnSums<T>{from.data(), rows, columns, panels, sums.data()});
    for (std::size_t j = 0; j < columns; ++j)
      CHECK(sums[j] == static_cast<T>(3 + rows * j + rows * (rows - 1) / 2));
  });
}

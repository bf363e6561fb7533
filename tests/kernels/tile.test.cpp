#include "lockstep/kernels/tile.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "lockstep/kernels/dispatch.hpp"
#include "support/instruction_sets.hpp"

namespace kernels = lockstep::kernels;

TEST_CASE_TEMPLATE("tiles cover all columns once, whatever their number", T, float, double) {
  lockstep_test::for_each_instruction_set([] {
    for (const std::size_t columns : {16u, 32u, 48u, 64u, 80u, 208u}) {
      CAPTURE(columns);
      std::vector<int> covered(columns + 64);
      kernels::dispatch([&]<class Isa>() LOCKSTEP_KERNEL_LAMBDA {
        kernels::for_each_tile_column<Isa, T>(columns, [&]<class Tile>(std::size_t column) {
          for (std::size_t j = 0; j < Tile::columns * kernels::lanes<T, Isa>; ++j)
            ++covered[column + j];
        });
      });
      for (std::size_t j = 0; j < covered.size(); ++j) CHECK(covered[j] == (j < columns ? 1 : 0));
    }
  });
}

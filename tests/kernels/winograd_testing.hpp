// The convolutions for which the Winograd kernels are compared with plain loops.
#pragma once

#include <cstddef>

#include "kernels/convolution_testing.hpp"
#include "support/instruction_sets.hpp"

namespace lockstep_test {

/// Calls check(T(), size, flag) for sizes that leave rests of tiles, of channels, of filters and of
/// blocks of samples, with each instruction set. `flag` is true for some of them.
template <class Check>
void for_each_winograd_size(const Check& check) {
  for_each_instruction_set([&] {
    for (const std::size_t batch : {0u, 16u, 48u}) {
      check(float(), convolution_size(6, 8, 16, 16, 3, 1, 1, batch), false);
      check(double(), convolution_size(7, 5, 16, 19, 3, 1, 1, batch), true);
      check(float(), convolution_size(7, 6, 21, 34, 3, 1, 0, batch), true);
      check(double(), convolution_size(4, 7, 17, 16, 3, 1, 2, batch), false);
    }
    check(float(), convolution_size(4, 4, 64, 40, 3, 1, 1, 80), true);
    check(float(), convolution_size(4, 4, 64, 72, 3, 1, 1, 80), true);
    check(float(), convolution_size(1, 2, 16, 16, 3, 1, 1, 16), false);  // smaller than a tile
  });
}

}  // namespace lockstep_test

#include "lockstep/kernels/depthwise.hpp"

#include <doctest/doctest.h>

#include <cstddef>

#include "kernels/convolution_testing.hpp"
#include "support/instruction_sets.hpp"

using lockstep_test::check_convolution;
using lockstep_test::convolution_size;

TEST_CASE("depthwise kernels: against loops in double") {
  static_assert(convolution_size(5, 6, 1, 2, 3, 1, 1, 16, 9).is_depthwise());
  lockstep_test::for_each_instruction_set([] {
    for (const std::size_t batch : {0u, 16u, 48u, 80u}) {
      check_convolution<float>(convolution_size(5, 6, 1, 1, 3, 1, 1, batch, 40), true);
      check_convolution<double>(convolution_size(7, 5, 1, 3, 2, 2, 0, batch, 3), true);
    }
    check_convolution<float>(convolution_size(8, 9, 1, 2, 3, 1, 2, 16, 5, 2), false);  // gaps
    check_convolution<float>(convolution_size(9, 7, 1, 1, 4, 3, 3, 16, 2, 2),
                             true);  // gaps and steps
    check_convolution<double>(convolution_size(3, 2, 1, 1, 7, 1, 3, 16, 2),
                              false);  // larger than the image
    check_convolution<double>(convolution_size(2, 2, 1, 1, 2, 1, 5, 16, 2, 9),
                              false);  // no tap inside
  });
}

#include "lockstep/kernels/convolution.hpp"

#include <doctest/doctest.h>

#include "kernels/convolution_testing.hpp"
#include "support/instruction_sets.hpp"

using lockstep::kernels::ConvolutionSize;
using lockstep_test::check_convolution;
using lockstep_test::convolution_size;

TEST_CASE("convolution kernels: against loops in double, few weights") {
  lockstep_test::for_each_instruction_set([] {
    for (const std::size_t batch : {0u, 16u, 48u, 64u})
      for (const ConvolutionSize& s : {convolution_size(5, 6, 1, 32, 3, 1, 0, batch),
                                       convolution_size(12, 11, 1, 7, 3, 1, 1, batch),
                                       convolution_size(7, 8, 3, 9, 5, 2, 2, batch),
                                       convolution_size(4, 4, 2, 1, 1, 3, 0, batch)}) {
        check_convolution<float>(s, false);
        check_convolution<double>(s, true);
        check_convolution<float>(s, true);
      }
    check_convolution<float>(convolution_size(3, 2, 1, 5, 7, 1, 3, 16),
                             true);  // a kernel larger than the image
  });
}

TEST_CASE("convolution kernels: against loops in double, many weights") {
  lockstep_test::for_each_instruction_set([] {
    for (const std::size_t batch : {0u, 16u, 80u}) {
      check_convolution<float>(convolution_size(4, 5, 48, 20, 3, 1, 1, batch), false);
      check_convolution<double>(convolution_size(4, 5, 20, 33, 3, 2, 1, batch), false);
      check_convolution<float>(convolution_size(1, 3, 300, 10, 1, 1, 0, batch), false);
    }
    check_convolution<float>(convolution_size(5, 4, 9, 24, 5, 1, 3, 32), false);
    check_convolution<float>(convolution_size(3, 3, 16, 200, 3, 1, 1, 64), false);
    for (const std::size_t batch : {144u, 272u}) {  // more samples than a block of summands
      check_convolution<float>(convolution_size(2, 3, 48, 48, 3, 1, 1, batch), true);
      check_convolution<double>(convolution_size(2, 2, 48, 20, 3, 1, 1, batch), false);
    }
  });
}

TEST_CASE("convolution kernels: groups and gaps between taps") {
  lockstep_test::for_each_instruction_set([] {
    check_convolution<float>(convolution_size(5, 6, 2, 3, 3, 1, 1, 16, 2), true);  // few weights
    check_convolution<double>(convolution_size(9, 8, 2, 5, 3, 2, 2, 16, 3, 2), true);
    check_convolution<double>(convolution_size(7, 8, 3, 4, 2, 1, 0, 48, 1, 3), false);
    check_convolution<float>(convolution_size(3, 4, 20, 33, 2, 1, 1, 16, 2), true);  // many weights
    check_convolution<float>(convolution_size(5, 6, 40, 12, 3, 2, 2, 144, 2, 2), false);
    check_convolution<double>(convolution_size(4, 5, 24, 20, 3, 1, 2, 16, 1, 2), false);
  });
}

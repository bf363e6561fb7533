#include "lockstep/kernels/depthwise.hpp"

#include <doctest/doctest.h>

#include "kernels/convolution_testing.hpp"
#include "support/instruction_sets.hpp"

// (Kernels of up to nine taps: see depthwise.test.cpp.)
TEST_CASE("depthwise kernels: gradients of more taps than fit into registers") {
  using lockstep_test::convolution_size;
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_convolution<float>(convolution_size(9, 12, 1, 2, 5, 1, 2, 48, 3), true);
    lockstep_test::check_convolution<double>(convolution_size(8, 8, 1, 1, 7, 2, 3, 16, 2), true);
  });
}

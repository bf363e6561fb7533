#include "lockstep/kernels/convolution_weights.hpp"

#include <doctest/doctest.h>

#include <cstddef>

#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

// (convolution.test.cpp compares the gradients with loops.)

namespace kernels = lockstep::kernels;
using kernels::ConvolutionSize;
using lockstep_test::Array;

namespace {

ConvolutionSize size(std::size_t channels, std::size_t filters, std::size_t batch) {
  return {.height = 4,
          .width = 4,
          .channels = channels,
          .out_height = 2,
          .out_width = 2,
          .filters = filters,
          .kernel_height = 3,
          .kernel_width = 3,
          .batch = batch};
}

/// The gradients of a convolution of ones.
void check_ones(const ConvolutionSize& s) {
  const Array<float> x(16 * s.channels * s.batch, 1.0F), dy(4 * s.filters * s.batch, 1.0F);
  const Array<float> dw(9 * s.channels * s.filters, 7.0F), db(s.filters, 7.0F);
  const Array<float> scratch(kernels::convolution_scratch(s), 7.0F);
  const kernels::Delta<float> delta{dy.data(), dy.data()};
  kernels::convolution_weight_gradient<float>(s, x.data(), delta, dw.data(), db.data(),
                                              scratch.data());
  for (const float value : dw) CHECK(value == static_cast<float>(4 * s.batch));
  for (const float value : db) CHECK(value == static_cast<float>(4 * s.batch));
  kernels::convolution_weight_gradient<float>(s, x.data(), delta, dw.data(), nullptr,
                                              scratch.data());
  CHECK(dw[0] == static_cast<float>(4 * s.batch));
}

}  // namespace

TEST_CASE("convolution weights: by lanes with few weights, by pixels with many, a bias if wanted") {
  CHECK(kernels::sums_by_lane(size(1, 32, 16)));
  CHECK_FALSE(kernels::sums_by_lane(size(16, 32, 16)));
  lockstep_test::for_each_instruction_set([] {
    for (const std::size_t batch : {0u, 16u, 48u}) {
      check_ones(size(1, 5, batch));
      check_ones(size(16, 32, batch));
    }
  });
}

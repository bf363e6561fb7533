#include "lockstep/losses/crossentropies.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>

#include "support/tensor.hpp"

namespace ls = lockstep;

TEST_CASE("softmax of a block: the samples from `first` on, with the numbers of the logarithm") {
  using lockstep_test::Tensor;
  const Tensor<double> logits = Tensor<double>::random(20, 3, 1, -30, 30), softmax(20, 3);
  ls::detail::SoftmaxBlock<double> block, without;
  ls::detail::softmax_block<double>(logits.view(), softmax.view(), 16, block);
  for (std::size_t row = 0; row < 20; ++row) {
    if (row < 16) {
      CHECK(softmax.view()(row, 0) == Tensor<double>::padding);
      continue;
    }
    double total = 0;
    for (std::size_t c = 0; c < 3; ++c) total += std::exp(logits.view()(row, c));
    CHECK(std::log(block.sum[row - 16]) + block.largest[row - 16] ==
          doctest::Approx(std::log(total)));
    CHECK(softmax.view()(row, 2) == doctest::Approx(std::exp(logits.view()(row, 2)) / total));
  }
  ls::detail::softmax_block<double>(logits.view(), ls::TensorView<double>(), 0, without);
  CHECK(without.sum[0] >= 1);
}

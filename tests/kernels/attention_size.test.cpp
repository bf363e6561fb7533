#include "lockstep/kernels/attention_size.hpp"

#include <doctest/doctest.h>

#include <cstddef>

namespace kernels = lockstep::kernels;

TEST_CASE("attention: sizes of blocks and of what is kept do not depend on the number of samples") {
  CHECK(kernels::attention_block(1) == 16);
  CHECK(kernels::attention_block(17) == 32);
  CHECK(kernels::attention_block(256) == 32);
  CHECK(kernels::attention_block(257) == 64);
  // Short sequences keep all probabilities, long ones two numbers for each query and head.
  kernels::AttentionSize size{.samples = 2, .heads = 3, .queries = 60, .keys = 60};
  CHECK(kernels::attention_keeps_probabilities(size));
  CHECK(kernels::attention_kept(size) == 2 * 3 * 60 * 64);
  size.queries = size.keys = 1024;
  CHECK(!kernels::attention_keeps_probabilities(size));
  CHECK(kernels::attention_kept(size) == 2 * 3 * 2 * 1024);
  const std::size_t work = kernels::attention_work(size);
  size.samples = 100;
  CHECK(kernels::attention_work(size) == work);
}

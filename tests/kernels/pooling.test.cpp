#include "lockstep/kernels/pooling.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

namespace kernels = lockstep::kernels;

TEST_CASE("pooling: windows, cut off at the border") {
  const kernels::PoolingSize size{.height = 3,
                                  .width = 3,
                                  .out_height = 2,
                                  .out_width = 2,
                                  .pool_height = 2,
                                  .pool_width = 2,
                                  .stride_height = 2,
                                  .stride_width = 2,
                                  .pad_top = 1,
                                  .pixel = 16};
  std::vector<std::size_t> numbers;
  kernels::for_each_window(size, [&](const kernels::Window& window) {
    numbers.insert(numbers.end(), {window.out, window.first, window.rows, window.columns});
  });
  CHECK(numbers == std::vector<std::size_t>{0, 0, 1, 2, 1, 2, 1, 1, 2, 3, 2, 2, 3, 5, 2, 1});
}

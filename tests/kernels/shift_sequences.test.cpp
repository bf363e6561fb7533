#include "lockstep/kernels/shift_sequences.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace kernels = lockstep::kernels;

TEST_CASE("sequences become longer and shorter at their ends") {
  const std::vector<int> from{1, 2, 3, 4, 5, 6, 0, 0};  // two sequences of three steps
  std::vector<int> longer(12, 7), shorter(4, 7);
  kernels::shift_sequences<int>({.features = 1,
                                 .samples = 2,
                                 .from_steps = 3,
                                 .from_stride = 8,
                                 .to_steps = 5,
                                 .to_stride = 12,
                                 .pad = 1},
                                from.data(), longer.data());
  CHECK(longer == std::vector<int>{0, 1, 2, 3, 0, 0, 4, 5, 6, 0, 0, 0});
  kernels::shift_sequences<int>({.features = 1,
                                 .samples = 2,
                                 .from_steps = 3,
                                 .from_stride = 8,
                                 .to_steps = 1,
                                 .to_stride = 4,
                                 .skip = 2},
                                from.data(), shorter.data());
  CHECK(shorter == std::vector<int>{3, 6, 0, 0});
}

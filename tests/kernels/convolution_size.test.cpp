#include "lockstep/kernels/convolution_size.hpp"

#include <doctest/doctest.h>

#include <cstddef>

namespace kernels = lockstep::kernels;

TEST_CASE("taps_inside: which taps lie in the image") {
  using kernels::Range, kernels::taps_inside;
  static_assert(taps_inside(0, 1, 3, 5) == Range{1, 3});
  static_assert(taps_inside(4, 1, 3, 5) == Range{0, 2});
  static_assert(taps_inside(0, 3, 3, 9, 2) == Range{2, 3});
  static_assert(taps_inside(7, 3, 3, 9, 2) == Range{0, 3});
  static_assert(taps_inside(8, 3, 3, 9, 2) == Range{0, 2});
  static_assert(taps_inside(0, 2, 2, 2, 5).size() == 0);  // one before, one after
}

TEST_CASE("taps_to_input and taps_to_output are the same pairs, from either side") {
  for (std::size_t stride = 1; stride <= 4; ++stride)
    for (std::size_t dilation = 1; dilation <= 4; ++dilation)
      for (std::size_t pad = 0; pad <= 3; ++pad) {
        constexpr std::size_t kernel = 4, extent = 17;
        const std::size_t outputs = (extent + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1;
        int pairs = 0, seen = 0;
        for (std::size_t out = 0; out < outputs; ++out)
          pairs += static_cast<int>(
              kernels::taps_to_input(out, stride, pad, kernel, extent, dilation).count);
        for (std::size_t in = 0; in < extent; ++in) {
          const kernels::TapLine line =
              kernels::taps_to_output(in, stride, pad, kernel, outputs, dilation);
          for (std::size_t i = 0; i < line.count; ++i) {
            const auto back =
                kernels::taps_to_input(line.place_at(i), stride, pad, kernel, extent, dilation);
            for (std::size_t j = 0; j < back.count; ++j)
              seen += back.tap_at(j) == line.tap_at(i) && back.place_at(j) == in ? 1 : 0;
          }
        }
        CHECK(pairs > 0);
        CHECK(seen == pairs);
      }
}

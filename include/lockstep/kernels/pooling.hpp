// What the pooling kernels share: windows over an image.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/convolution.hpp"
#include "lockstep/kernels/dispatch.hpp"

// All channels and samples of a pixel lie one after the other, and pooling treats them alike: a
// window is a number of runs of memory of equal length, one for each of its pixels.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

struct PoolingSize {
  std::size_t height = 0, width = 0;  ///< input
  std::size_t out_height = 0, out_width = 0;
  std::size_t pool_height = 0, pool_width = 0;
  std::size_t stride_height = 1, stride_width = 1;
  std::size_t pad_top = 0, pad_left = 0;
  std::size_t pixel = 0;  ///< elements of a pixel: channels x padded batch, a multiple of 16
};

/// The part of a window that lies inside the image. It is never empty.
struct Window {
  std::size_t out = 0;      ///< number of the output pixel
  std::size_t first = 0;    ///< number of the first input pixel
  std::size_t rows = 0;     ///< pixels
  std::size_t columns = 0;  ///< pixels
};

/// Calls f(Window) for each window, row by row.
template <class F>
LOCKSTEP_KERNEL void for_each_window(const PoolingSize& s, const F& f) {
  for (std::size_t row = 0; row < s.out_height; ++row) {
    const Range rows = taps_inside(row * s.stride_height, s.pad_top, s.pool_height, s.height);
    const std::size_t first_row = row * s.stride_height + rows.begin - s.pad_top;
    for (std::size_t column = 0; column < s.out_width; ++column) {
      const Range columns = taps_inside(column * s.stride_width, s.pad_left, s.pool_width, s.width);
      const std::size_t first_column = column * s.stride_width + columns.begin - s.pad_left;
      f(Window{row * s.out_width + column, first_row * s.width + first_column, rows.size(),
               columns.size()});
    }
  }
}

}}}  // namespace lockstep::kernels

// Two-dimensional convolution, direct: forward and input gradient.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/product.hpp"

// Features are ordered (row, column, channel), each with its batch, padded to `batch`, innermost;
// weights are [kernel row][kernel column][channel][filter]. So the features under one row of the
// kernel lie one after the other, as do the weights that they are multiplied with: an output pixel
// is a small matrix product with one segment for each kernel row. No feature is copied, and padding
// is a matter of shorter segments.

namespace lockstep::inline LOCKSTEP_ABI::kernels {

struct ConvolutionSize {
  std::size_t height = 0, width = 0, channels = 0;  ///< input
  std::size_t out_height = 0, out_width = 0, filters = 0;
  std::size_t kernel_height = 0, kernel_width = 0;
  std::size_t stride_height = 1, stride_width = 1;
  std::size_t pad_top = 0, pad_left = 0;
  std::size_t batch = 0;  ///< padded, a multiple of 16
};

/// A range [begin, end).
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  [[nodiscard]] constexpr std::size_t size() const noexcept { return end - begin; }
  friend constexpr bool operator==(Range, Range) = default;
};

/// Which of `kernel` taps, the first of which lies at `position - pad`, lie inside [0, extent).
[[nodiscard]] constexpr Range taps_inside(std::size_t position, std::size_t pad, std::size_t kernel,
                                          std::size_t extent) noexcept {
  const std::size_t begin = position < pad ? pad - position : 0;
  const std::size_t end = std::min(kernel, extent + pad > position ? extent + pad - position : 0);
  return {std::min(begin, end), end};
}

namespace detail {

/// One target that many segments are added to, in blocks of at most inner_block summands.
template <class T>
class Accumulation {
 public:
  Accumulation(const Target<T>& target, const Steps& steps, const T* bias, Finish<T> finish)
      : block_{target, segments_.data(), 0, steps, {false, bias}, {}}, finish_(finish) {}
  Accumulation(const Accumulation&) = delete;

  void add(const T* a, const T* b, std::size_t count) {
    while (count > 0) {
      const std::size_t piece = std::min(count, inner_block);
      if (block_.segment_count == segments_.size() || pending_ + piece > inner_block) flush();
      segments_[block_.segment_count++] = {a, b, piece};
      pending_ += piece;
      a += piece * block_.steps.a;
      b += piece * block_.steps.b.step;
      count -= piece;
    }
  }

  void finish() {
    block_.finish = finish_;
    flush();
  }

 private:
  void flush() {
    dispatch(block_);
    block_.segment_count = 0;
    block_.onto = {.sums = true};
    pending_ = 0;
  }

  std::array<Segment<T>, 16> segments_;  // (set as they are added)
  ProductBlock<T> block_;
  Finish<T> finish_;
  std::size_t pending_ = 0;
};

}  // namespace detail

/// y[pixel][filter][b] = finish(bias[filter] + sum over the kernel's taps and channels of weights *
/// x). bias may be null: zero.
template <class T>
void convolution_forward(const ConvolutionSize& s, const T* x, const T* weights, const T* bias, T* y,
                         Finish<T> finish = {}) {
  if (s.batch == 0) return;
  for (std::size_t row = 0; row < s.out_height; ++row) {
    const Range tap_rows = taps_inside(row * s.stride_height, s.pad_top, s.kernel_height, s.height);
    for (std::size_t column = 0; column < s.out_width; ++column) {
      const Range taps = taps_inside(column * s.stride_width, s.pad_left, s.kernel_width, s.width);
      detail::Accumulation<T> sum(
          {y + (row * s.out_width + column) * s.filters * s.batch, s.filters, s.batch, s.batch, s.filters * s.batch},
          {.a_row = 1, .a = s.filters, .b = {s.batch}}, bias, finish);
      for (std::size_t tap_row = tap_rows.begin; tap_row < tap_rows.end; ++tap_row) {
        const std::size_t input_row = row * s.stride_height + tap_row - s.pad_top;
        const std::size_t input_column = column * s.stride_width + taps.begin - s.pad_left;
        sum.add(weights + (tap_row * s.kernel_width + taps.begin) * s.channels * s.filters,
                x + (input_row * s.width + input_column) * s.channels * s.batch, taps.size() * s.channels);
      }
      sum.finish();
    }
  }
}

/// dx[pixel][channel][b] = sum over the outputs that saw it of weights * dy.
template <class T>
void convolution_input_gradient(const ConvolutionSize& s, const T* weights, const T* dy, T* dx) {
  if (s.batch == 0) return;
  for (std::size_t row = 0; row < s.height; ++row)
    for (std::size_t column = 0; column < s.width; ++column) {
      detail::Accumulation<T> sum({dx + (row * s.width + column) * s.channels * s.batch, s.channels, s.batch, s.batch},
                                  {.a_row = s.filters, .a = 1, .b = {s.batch}}, nullptr, {});
      for (std::size_t tap_row = 0; tap_row < s.kernel_height; ++tap_row) {
        // The output row whose tap `tap_row` lies on this row, if there is one.
        const std::size_t from_row = row + s.pad_top - tap_row;
        if (row + s.pad_top < tap_row || from_row % s.stride_height != 0) continue;
        const std::size_t out_row = from_row / s.stride_height;
        if (out_row >= s.out_height) continue;
        for (std::size_t tap = 0; tap < s.kernel_width; ++tap) {
          const std::size_t from_column = column + s.pad_left - tap;
          if (column + s.pad_left < tap || from_column % s.stride_width != 0) continue;
          const std::size_t out_column = from_column / s.stride_width;
          if (out_column >= s.out_width) continue;
          sum.add(weights + (tap_row * s.kernel_width + tap) * s.channels * s.filters,
                  dy + (out_row * s.out_width + out_column) * s.filters * s.batch, s.filters);
        }
      }
      sum.finish();
    }
}

LOCKSTEP_INSTANCE(void convolution_forward<float>(const ConvolutionSize&, const float*, const float*, const float*,
                                                  float*, Finish<float>));
LOCKSTEP_INSTANCE(void convolution_input_gradient<float>(const ConvolutionSize&, const float*, const float*, float*));
LOCKSTEP_INSTANCE(void convolution_forward<double>(const ConvolutionSize&, const double*, const double*, const double*,
                                                   double*, Finish<double>));
LOCKSTEP_INSTANCE(void convolution_input_gradient<double>(const ConvolutionSize&, const double*, const double*,
                                                          double*));

}  // namespace lockstep::inline LOCKSTEP_ABI::kernels

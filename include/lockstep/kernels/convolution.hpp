// Convolution of images and volumes, direct: forward and input gradient.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/convolution_size.hpp"
#include "lockstep/kernels/depthwise.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/product.hpp"

// Features are ordered (plane, row, column, channel), each with its batch, padded to `batch`,
// innermost; weights are [kernel plane][kernel row][kernel column][channel][filter]. So the
// features under one row of the kernel lie one after the other, as do the weights that they are
// multiplied with: an output pixel is a small matrix product with one segment for each kernel row.
// No feature is copied, and padding is a matter of shorter segments. With groups or gaps between
// the taps, there is a segment for each tap.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

/// One target that many segments are added to, in blocks of at most inner_block summands.
template <class T>
class Accumulation {
 public:
  Accumulation(const Target<T>& target, const Steps& steps, const Onto<T>& onto, Finish<T> finish)
      : block_{target, segments_.data(), 0, steps, onto, {}}, finish_(finish) {}
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
void convolution_forward(const ConvolutionSize& s, const T* x, const T* weights, const T* bias,
                         T* y, Finish<T> finish = {}) {
  if (s.batch == 0) return;
  if (s.is_depthwise()) return dispatch(DepthwiseForward<T>{s, x, weights, bias, y, finish});
  const std::size_t channels = s.all_channels(), filters = s.all_filters();
  // Taps whose features and weights lie one after the other.
  const bool in_a_row = s.groups == 1 && s.dilation_width == 1;
  for (std::size_t row = 0; row < s.out_rows(); ++row) {
    const TapLine tap_planes = taps_to_input(row / s.out_height, s.stride_depth, s.pad_front,
                                             s.kernel_depth, s.depth, s.dilation_depth);
    const TapLine tap_rows = taps_to_input(row % s.out_height, s.stride_height, s.pad_top,
                                           s.kernel_height, s.height, s.dilation_height);
    for (std::size_t column = 0; column < s.out_width; ++column) {
      const TapLine taps = taps_to_input(column, s.stride_width, s.pad_left, s.kernel_width,
                                         s.width, s.dilation_width);
      const std::size_t runs = in_a_row ? std::min<std::size_t>(taps.count, 1) : taps.count;
      const std::size_t summands = in_a_row ? taps.count * s.channels : s.channels;
      for (std::size_t group = 0; group < s.groups; ++group) {
        detail::Accumulation<T> sum(
            {y + ((row * s.out_width + column) * filters + group * s.filters) * s.batch, s.filters,
             s.batch, s.batch, s.filters * s.batch},
            {.a_row = 1, .a = filters, .b = {s.batch}},
            {.bias = bias == nullptr ? nullptr : bias + group * s.filters}, finish);
        for (std::size_t p = 0; p < tap_planes.count; ++p)
          for (std::size_t i = 0; i < tap_rows.count; ++i)
            for (std::size_t run = 0; run < runs; ++run) {
              const std::size_t tap_row =
                                    tap_planes.tap_at(p) * s.kernel_height + tap_rows.tap_at(i),
                                tap = tap_row * s.kernel_width + taps.tap_at(run),
                                place = tap_planes.place_at(p) * s.height + tap_rows.place_at(i),
                                pixel = place * s.width + taps.place_at(run);
              sum.add(weights + tap * s.channels * filters + group * s.filters,
                      x + (pixel * channels + group * s.channels) * s.batch, summands);
            }
        sum.finish();
      }
    }
  }
}

/// dx[pixel][channel][b] = finish(bias[channel] + sum over the outputs that saw it of weights *
/// dy). bias may be null: zero. (With these it is the forward of a transposed convolution; not
/// where each channel has its filters.) With `adds`, the sum is added to what dx holds; that
/// neither.
template <class T>
void convolution_input_gradient(const ConvolutionSize& s, const T* weights, const T* dy, T* dx,
                                const T* bias = nullptr, Finish<T> finish = {}, bool adds = false) {
  if (s.batch == 0) return;
  if (s.is_depthwise()) return dispatch(DepthwiseInputGradient<T>{s, weights, dy, dx});
  const std::size_t channels = s.all_channels(), filters = s.all_filters();
  for (std::size_t row = 0; row < s.rows(); ++row) {
    const TapLine tap_planes = taps_to_output(row / s.height, s.stride_depth, s.pad_front,
                                              s.kernel_depth, s.out_depth, s.dilation_depth);
    const TapLine tap_rows = taps_to_output(row % s.height, s.stride_height, s.pad_top,
                                            s.kernel_height, s.out_height, s.dilation_height);
    for (std::size_t column = 0; column < s.width; ++column) {
      const TapLine taps = taps_to_output(column, s.stride_width, s.pad_left, s.kernel_width,
                                          s.out_width, s.dilation_width);
      for (std::size_t group = 0; group < s.groups; ++group) {
        detail::Accumulation<T> sum(
            {dx + ((row * s.width + column) * channels + group * s.channels) * s.batch, s.channels,
             s.batch, s.batch},
            {.a_row = filters, .a = 1, .b = {s.batch}},
            {adds, bias == nullptr ? nullptr : bias + group * s.channels}, finish);
        for (std::size_t p = 0; p < tap_planes.count; ++p)
          for (std::size_t i = 0; i < tap_rows.count; ++i)
            for (std::size_t j = 0; j < taps.count; ++j) {
              const std::size_t tap_row =
                                    tap_planes.tap_at(p) * s.kernel_height + tap_rows.tap_at(i),
                                tap = tap_row * s.kernel_width + taps.tap_at(j),
                                place =
                                    tap_planes.place_at(p) * s.out_height + tap_rows.place_at(i),
                                pixel = place * s.out_width + taps.place_at(j);
              sum.add(weights + tap * s.channels * filters + group * s.filters,
                      dy + (pixel * filters + group * s.filters) * s.batch, s.filters);
            }
        sum.finish();
      }
    }
  }
}

LOCKSTEP_EXTERN(void convolution_forward<float>(const ConvolutionSize&, const float*, const float*,
                                                const float*, float*, Finish<float>));
LOCKSTEP_EXTERN(void convolution_input_gradient<float>(const ConvolutionSize&, const float*,
                                                       const float*, float*, const float*,
                                                       Finish<float>, bool));
LOCKSTEP_EXTERN_DOUBLE(void convolution_forward<double>(const ConvolutionSize&, const double*,
                                                        const double*, const double*, double*,
                                                        Finish<double>));
LOCKSTEP_EXTERN_DOUBLE(void convolution_input_gradient<double>(const ConvolutionSize&,
                                                               const double*, const double*,
                                                               double*, const double*,
                                                               Finish<double>, bool));

}}}  // namespace lockstep::kernels

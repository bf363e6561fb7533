// Convolution of images and volumes: gradients of weights and bias.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/column_sums.hpp"
#include "lockstep/kernels/convolution.hpp"
#include "lockstep/kernels/convolution_lanes.hpp"
#include "lockstep/kernels/depthwise.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/product.hpp"
#include "lockstep/kernels/transpose.hpp"

// Two ways. With many weights, the delta of a few pixels is transposed, so that filters are
// innermost, and one matrix product is added to the gradient for each row of the kernel: [taps and
// channels x batch] * [batch x filters]. With few weights (a first layer), that transposition would
// cost more than the product; there the sums of all pixels are kept for each lane of the batch, and
// lanes are added up at the end. Groups are treated one after the other.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// Whether the sums of each lane are kept: whether they fit into the second-level cache, and the
/// first besides x.
[[nodiscard]] constexpr bool sums_by_lane(const ConvolutionSize& s) noexcept {
  return (detail::tap_count(s) + 1) * s.filters <= 2048;
}

namespace detail {

/// Pixels whose deltas are transposed together, so that a block has at least 64 summands.
[[nodiscard]] constexpr std::size_t pixels_at_once(std::size_t batch) noexcept {
  return batch == 0 ? 1 : std::clamp<std::size_t>(inner_block / batch, 1, 8);
}

}  // namespace detail

/// Elements of scratch that convolution_weight_gradient needs.
[[nodiscard]] constexpr std::size_t convolution_scratch(const ConvolutionSize& s) noexcept {
  if (s.is_depthwise()) return depthwise_scratch(s);
  if (sums_by_lane(s)) return detail::lane_scratch(s);
  return transposed_size(s.filters, detail::pixels_at_once(s.batch) * s.batch);
}

namespace detail {

/// For one group: x, delta and the gradients begin with its first channel and filter.
template <class T>
void convolution_weight_gradient_by_pixel(const ConvolutionSize& s, const T* x,
                                          const Delta<T>& delta, T* weight_gradient,
                                          T* bias_gradient, T* scratch) {
  const Panels panels = transposed_panels(s.filters, pixels_at_once(s.batch) * s.batch);
  const std::size_t channels = s.all_channels(), filters = s.all_filters();
  const auto taps_of = [&](std::size_t column) {
    return taps_inside(column * s.stride_width, s.pad_left, s.kernel_width, s.width,
                       s.dilation_width);
  };
  // Taps whose features and weights lie one after the other.
  const bool in_a_row = s.groups == 1 && s.dilation_width == 1;
  for (std::size_t row = 0; row < s.out_rows(); ++row) {
    const std::size_t plane_begin = row / s.out_height * s.stride_depth,
                      row_begin = row % s.out_height * s.stride_height;
    const Range tap_planes =
        taps_inside(plane_begin, s.pad_front, s.kernel_depth, s.depth, s.dilation_depth);
    const Range tap_rows =
        taps_inside(row_begin, s.pad_top, s.kernel_height, s.height, s.dilation_height);
    std::size_t column = 0;
    while (column < s.out_width) {
      // A group of pixels whose taps are cut off by the border in the same way.
      const Range taps = taps_of(column);
      std::size_t pixels = 1;
      while (pixels < pixels_at_once(s.batch) && column + pixels < s.out_width &&
             taps == taps_of(column + pixels))
        ++pixels;
      for (std::size_t i = 0; i < pixels; ++i) {
        const std::size_t first = (row * s.out_width + column + i) * filters * s.batch;
        const Delta<T> part{delta.dy + first, delta.y + first, delta.minimum,
                            delta.masked == nullptr ? nullptr : delta.masked + first};
        dispatch(
            Transpose<T>{part, s.filters, s.batch, scratch + i * s.batch * panels.step, panels});
      }
      if (bias_gradient != nullptr)
        dispatch(ColumnSums<T>{scratch, pixels * s.batch, s.filters, panels, bias_gradient});
      const std::size_t taps_at_once = in_a_row ? std::max<std::size_t>(taps.size(), 1) : 1;
      for (std::size_t tap_plane = tap_planes.begin; tap_plane < tap_planes.end; ++tap_plane)
        for (std::size_t tap_row = tap_rows.begin; tap_row < tap_rows.end; ++tap_row)
          for (std::size_t tap = taps.begin; tap < taps.end; tap += taps_at_once) {
            const std::size_t plane = plane_begin + tap_plane * s.dilation_depth - s.pad_front;
            const std::size_t input_row =
                plane * s.height + row_begin + tap_row * s.dilation_height - s.pad_top;
            std::array<Segment<T>, 8> segments;
            for (std::size_t i = 0; i < pixels; ++i) {
              const std::size_t input_column =
                  (column + i) * s.stride_width + tap * s.dilation_width - s.pad_left;
              segments[i] = {x + (input_row * s.width + input_column) * channels * s.batch,
                             scratch + i * s.batch * panels.step, s.batch};
            }
            const std::size_t kernel_row = tap_plane * s.kernel_height + tap_row;
            T* gradient =
                weight_gradient + (kernel_row * s.kernel_width + tap) * s.channels * filters;
            dispatch(ProductBlock<T>{{gradient, taps_at_once * s.channels, s.filters, filters},
                                     segments.data(),
                                     pixels,
                                     {.a_row = s.batch, .a = 1, .b = panels},
                                     {.sums = true},
                                     {}});
          }
      column += pixels;
    }
  }
}

}  // namespace detail

/// weight_gradient = sum over pixels and batch of x * delta, bias_gradient = sum of delta. The
/// padding of the delta is zero. bias_gradient may be null: not wanted. Where each channel has
/// its filters, a delta with a minimum is `masked` in place.
template <class T>
void convolution_weight_gradient(const ConvolutionSize& s, const T* x, const Delta<T>& delta,
                                 T* weight_gradient, T* bias_gradient, T* scratch) {
  std::fill_n(weight_gradient, s.weights(), T(0));
  if (bias_gradient != nullptr) std::fill_n(bias_gradient, s.all_filters(), T(0));
  if (s.batch == 0) return;
  if (s.is_depthwise())
    return dispatch(
        DepthwiseWeightGradient<T>{s, x, delta, weight_gradient, bias_gradient, scratch});
  for (std::size_t group = 0; group < s.groups; ++group) {
    const std::size_t first = group * s.filters * s.batch;
    const Delta<T> of_group{delta.dy + first, delta.y + first, delta.minimum,
                            delta.masked == nullptr ? nullptr : delta.masked + first};
    const T* const channels = x + group * s.channels * s.batch;
    T* const weights = weight_gradient + group * s.filters;
    T* const bias = bias_gradient == nullptr ? nullptr : bias_gradient + group * s.filters;
    if (sums_by_lane(s))
      detail::convolution_weight_gradient_by_lane<T>(s, channels, of_group, weights, bias, scratch);
    else
      detail::convolution_weight_gradient_by_pixel<T>(s, channels, of_group, weights, bias,
                                                      scratch);
  }
}

LOCKSTEP_EXTERN(void convolution_weight_gradient<float>(const ConvolutionSize&, const float*,
                                                        const Delta<float>&, float*, float*,
                                                        float*));
LOCKSTEP_EXTERN_DOUBLE(void convolution_weight_gradient<double>(const ConvolutionSize&,
                                                                const double*, const Delta<double>&,
                                                                double*, double*, double*));

}}}  // namespace lockstep::kernels

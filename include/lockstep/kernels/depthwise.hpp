// Depthwise convolution, each channel with its filters: forward and input gradient.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/convolution_size.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/product_layout.hpp"
#include "lockstep/kernels/vector.hpp"

// Nothing is summed over channels, so that there is no matrix product: a weight is multiplied with
// a few vectors of samples, which are one run of memory. A block of channels is taken through the
// whole image: what lies under the kernel stays in the first-level cache then, and the rows that it
// covers in the second.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

/// Groups whose features are about 2 KiB of a pixel of floats.
[[nodiscard]] constexpr std::size_t depthwise_block(const ConvolutionSize& s) noexcept {
  return std::clamp<std::size_t>(512 / std::max<std::size_t>(s.filters * s.batch, 1), 1, s.groups);
}

/// Calls f(range of groups, row, column) for each block of groups of each pixel of the target.
template <class F>
LOCKSTEP_KERNEL void for_each_depthwise_pixel(const ConvolutionSize& s, std::size_t rows,
                                              std::size_t columns, const F& f) {
  const std::size_t block = depthwise_block(s);
  for (std::size_t group = 0; group < s.groups; group += block)
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t column = 0; column < columns; ++column)
        f(Range{group, std::min(group + block, s.groups)}, row, column);
}

/// The taps that make one pixel of the target.
struct DepthwiseTaps {
  TapLine rows, columns;
  std::size_t tap_row_step, tap_step;           ///< elements of the weights
  std::ptrdiff_t source_row_step, source_step;  ///< elements of the source

  LOCKSTEP_KERNEL DepthwiseTaps(const ConvolutionSize& s, const TapLine& down,
                                const TapLine& across, std::size_t source_width,
                                std::size_t source_pixel)
      : rows(down),
        columns(across),
        tap_row_step(down.tap_step * s.kernel_width * s.all_filters()),
        tap_step(across.tap_step * s.all_filters()),
        source_row_step(down.place_step * static_cast<std::ptrdiff_t>(source_width * source_pixel)),
        source_step(across.place_step * static_cast<std::ptrdiff_t>(source_pixel)) {}

  /// sums += weight * source over the taps; both pointers are those of the first one.
  template <class T, class P, std::size_t Vectors>
  LOCKSTEP_KERNEL void add(const T* weight, const T* source, P (&sums)[Vectors]) const {
    for (std::size_t row = rows.count; row > 0; --row) {
      const T* w = weight;
      const T* from = source;
      for (std::size_t column = columns.count; column > 0; --column) {
        const P factor(*w);
#pragma GCC unroll 8
        for (std::size_t v = 0; v < Vectors; ++v)
          sums[v] = multiply_add(P(from + v * P::size), factor, sums[v]);
        w += tap_step;
        from += source_step;
      }
      weight += tap_row_step;
      source += source_row_step;
    }
  }
};

/// Calls `f.template operator()<Vectors>(i)` for pieces of `batch` elements.
template <class Isa, class T, class F>
LOCKSTEP_KERNEL void for_each_batch_piece(std::size_t batch, const F& f) {
  constexpr std::size_t width = lanes<T, Isa>;
  constexpr std::size_t most = Isa::registers == 32 ? 4 : 8;
  std::size_t i = 0;
  for (; i + most * width <= batch; i += most * width) f.template operator()<most>(i);
  if constexpr (16 / width > 1 && 16 / width < most)
    for (; i < batch; i += 16) f.template operator()<16 / width>(i);
  else
    for (; i < batch; i += width) f.template operator()<1>(i);
}

}  // namespace detail

/// y[pixel][group][filter][b] = finish(bias + sum over the taps of weights * x), for
/// kernels::dispatch. bias may be null: zero.
template <class T>
struct DepthwiseForward {
  const ConvolutionSize& size;
  const T* x = nullptr;
  const T* weights = nullptr;
  const T* bias = nullptr;
  T* y = nullptr;
  Finish<T> finish;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const ConvolutionSize s = size;
    const P minimum(finish.minimum);
    const std::size_t pixel = s.groups * s.batch;
    detail::for_each_depthwise_pixel(
        s, s.out_height, s.out_width,
        [&](Range groups, std::size_t row, std::size_t column) LOCKSTEP_KERNEL_LAMBDA {
          const TapLine down = taps_to_input(row, s.stride_height, s.pad_top, s.kernel_height,
                                             s.height, s.dilation_height);
          const TapLine across = taps_to_input(column, s.stride_width, s.pad_left, s.kernel_width,
                                               s.width, s.dilation_width);
          const detail::DepthwiseTaps taps(s, down, across, s.width, pixel);
          const T* const first_weight =
              weights + (down.tap * s.kernel_width + across.tap) * s.all_filters();
          const T* const source = x + (down.place * s.width + across.place) * pixel;
          T* const target = y + (row * s.out_width + column) * s.filters * pixel;
          for (std::size_t group = groups.begin; group < groups.end; ++group)
            for (std::size_t f = group * s.filters; f < (group + 1) * s.filters; ++f)
              detail::for_each_batch_piece<Isa, T>(
                  s.batch, [&]<std::size_t Vectors>(std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
                    P sums[Vectors];
#pragma GCC unroll 8
                    for (std::size_t v = 0; v < Vectors; ++v)
                      sums[v] = P(bias != nullptr ? bias[f] : T(0));
                    taps.add(first_weight + f, source + group * s.batch + i, sums);
#pragma GCC unroll 8
                    for (std::size_t v = 0; v < Vectors; ++v)
                      select(sums[v] < minimum, minimum, sums[v])
                          .store(target + f * s.batch + i + v * P::size);
                  });
        });
  }
};

/// dx[pixel][group][b] = sum over the outputs that saw it of weights * dy, for kernels::dispatch.
template <class T>
struct DepthwiseInputGradient {
  const ConvolutionSize& size;
  const T* weights = nullptr;
  const T* dy = nullptr;
  T* dx = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const ConvolutionSize s = size;
    const std::size_t out_pixel = s.all_filters() * s.batch;
    detail::for_each_depthwise_pixel(
        s, s.height, s.width,
        [&](Range groups, std::size_t row, std::size_t column) LOCKSTEP_KERNEL_LAMBDA {
          const TapLine down = taps_to_output(row, s.stride_height, s.pad_top, s.kernel_height,
                                              s.out_height, s.dilation_height);
          const TapLine across = taps_to_output(column, s.stride_width, s.pad_left, s.kernel_width,
                                                s.out_width, s.dilation_width);
          const detail::DepthwiseTaps taps(s, down, across, s.out_width, out_pixel);
          const T* const first_weight =
              weights + (down.tap * s.kernel_width + across.tap) * s.all_filters();
          const T* const source = dy + (down.place * s.out_width + across.place) * out_pixel;
          T* const target = dx + (row * s.width + column) * s.groups * s.batch;
          for (std::size_t group = groups.begin; group < groups.end; ++group)
            detail::for_each_batch_piece<Isa, T>(
                s.batch, [&]<std::size_t Vectors>(std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
                  P sums[Vectors];
#pragma GCC unroll 8
                  for (std::size_t v = 0; v < Vectors; ++v) sums[v] = P(T(0));
                  for (std::size_t f = group * s.filters; f < (group + 1) * s.filters; ++f)
                    taps.add(first_weight + f, source + f * s.batch + i, sums);
#pragma GCC unroll 8
                  for (std::size_t v = 0; v < Vectors; ++v)
                    sums[v].store(target + group * s.batch + i + v * P::size);
                });
        });
  }
};

}}}  // namespace lockstep::kernels

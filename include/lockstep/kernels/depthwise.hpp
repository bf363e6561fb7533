// Depthwise convolution, each channel with its filters: forward and all gradients.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/convolution_size.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/product_layout.hpp"
#include "lockstep/kernels/transpose.hpp"
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

// The sums of each lane are kept, for one block of channels at a time: first in registers, for a
// few taps and the pixels of one row, then in scratch. Lanes are added up at the end.

/// Elements of scratch that DepthwiseWeightGradient needs: [filters of a block][taps + 1][lanes].
[[nodiscard]] constexpr std::size_t depthwise_scratch(const ConvolutionSize& s) noexcept {
  return detail::depthwise_block(s) * s.filters * (s.taps() + 1) * 16;
}

/// weight_gradient = sum over pixels and batch of x * delta, bias_gradient = sum of delta, for
/// kernels::dispatch. The padding of the delta is zero. It is `masked` in place if it has a
/// minimum. bias_gradient may be null: not wanted.
template <class T>
struct DepthwiseWeightGradient {
  const ConvolutionSize& size;
  const T* x = nullptr;
  Delta<T> delta;
  T* weight_gradient = nullptr;
  T* bias_gradient = nullptr;
  T* scratch = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    constexpr std::size_t n = lanes<T, Isa>;
    const ConvolutionSize& s = size;
    const std::size_t block = detail::depthwise_block(s);
    const std::size_t taps = s.taps(), filters = s.all_filters();
    for (std::size_t group = 0; group < s.groups; group += block) {
      const Range in_block{group * s.filters, std::min(group + block, s.groups) * s.filters};
      std::fill_n(scratch, in_block.size() * (taps + 1) * n, T(0));
      for (std::size_t row = 0; row < s.out_height; ++row)
        for (std::size_t f = in_block.begin; f < in_block.end; ++f) {
          T* const sums = scratch + (f - in_block.begin) * (taps + 1) * n;
          if (bias_gradient != nullptr || delta.masked != nullptr)
            mask_and_add_bias<Isa>(row, f, sums + taps * n);
          add_row<Isa>(row, f, sums);
        }
      for (std::size_t f = in_block.begin; f < in_block.end; ++f) {
        const T* sums = scratch + (f - in_block.begin) * (taps + 1) * n;
        for (std::size_t tap = 0; tap < taps; ++tap)
          weight_gradient[tap * filters + f] = total<Isa>(sums + tap * n);
        if (bias_gradient != nullptr) bias_gradient[f] = total<Isa>(sums + taps * n);
      }
    }
  }

 private:
  template <class Isa>
  LOCKSTEP_KERNEL static T total(const T* sums) {
    Vector<T, Isa> sum;
    load(sum, sums);
    return sum_of_lanes<T>(sum);
  }

  /// Finishes filter f in one row of outputs.
  template <class Isa>
  LOCKSTEP_KERNEL void mask_and_add_bias(std::size_t row, std::size_t f, T* sums) const {
    constexpr std::size_t n = lanes<T, Isa>;
    const T minimum = delta.minimum;
    const std::size_t pixel = size.all_filters() * size.batch, batch = size.batch;
    std::size_t at = row * size.out_width * pixel + f * batch;
    Vector<T, Isa> sum;
    load(sum, sums);
    for (std::size_t column = size.out_width; column > 0; --column, at += pixel)
      for (std::size_t i = 0; i < batch; i += n) {
        Vector<T, Isa> gradient, value;
        load(gradient, delta.dy + at + i);
        if (delta.masked != nullptr) {
          load(value, delta.y + at + i);
          gradient = value <= minimum ? Vector<T, Isa>{} : gradient;
          store(delta.masked + at + i, gradient);
        }
        sum += gradient;
      }
    store(sums, sum);
  }

  /// The sums of all taps of filter f in one row of outputs.
  template <class Isa>
  LOCKSTEP_KERNEL void add_row(std::size_t row, std::size_t f, T* sums) const {
    const ConvolutionSize& s = size;
    const std::size_t pixel = s.groups * s.batch, out_pixel = s.all_filters() * s.batch;
    const TapLine down = taps_to_input(row, s.stride_height, s.pad_top, s.kernel_height, s.height,
                                       s.dilation_height);
    const T* const channel = x + down.place * s.width * pixel + f / s.filters * s.batch;
    const T* const deltas = delta.dy + row * s.out_width * out_pixel + f * s.batch;
    for (std::size_t column = 0; column < s.out_width;) {
      // Pixels whose taps are cut off by the border in the same way.
      const TapLine across = taps_to_input(column, s.stride_width, s.pad_left, s.kernel_width,
                                           s.width, s.dilation_width);
      std::size_t pixels = 1;
      while (column + pixels < s.out_width) {
        const TapLine next = taps_to_input(column + pixels, s.stride_width, s.pad_left,
                                           s.kernel_width, s.width, s.dilation_width);
        if (next.tap != across.tap || next.count != across.count) break;
        ++pixels;
      }
      const Run run{channel + across.place * pixel, deltas + column * out_pixel, pixels};
      const std::size_t taps = down.count * across.count;
      for (std::size_t tap = 0; tap < taps;) {
        if (taps - tap > 4) {
          add_taps<Isa, 9>(run, down, across, tap, std::min<std::size_t>(9, taps - tap), sums);
          tap += 9;
        } else {
          add_taps<Isa, 4>(run, down, across, tap, taps - tap, sums);
          tap += 4;
        }
      }
      column += pixels;
    }
  }

  /// Neighbouring pixels of a row of outputs, which see all the same taps.
  struct Run {
    const T* x;       ///< under the first tap of the first pixel
    const T* deltas;  ///< of the first pixel
    std::size_t pixels;
  };

  /// Taps [tap, tap + count) of those inside; up to Taps are computed and not stored.
  template <class Isa, std::size_t Taps>
  LOCKSTEP_KERNEL void add_taps(const Run& run, const TapLine& down, const TapLine& across,
                                std::size_t tap, std::size_t count, T* sums) const {
    constexpr std::size_t n = lanes<T, Isa>;
    const std::size_t batch = size.batch, pixel = size.groups * batch;
    const std::size_t row_step = size.dilation_height * size.width * pixel,
                      step = size.dilation_width * pixel;
    const std::size_t in_step = size.stride_width * pixel, out_step = size.all_filters() * batch;
    const T* inputs[Taps];
    std::size_t places[Taps];
    for (std::size_t t = 0; t < Taps; ++t) {
      const std::size_t row = (tap + (t < count ? t : 0)) / across.count;
      const std::size_t column = (tap + (t < count ? t : 0)) % across.count;
      inputs[t] = run.x + row * row_step + column * step;
      places[t] = ((down.tap + row) * size.kernel_width + across.tap + column) * n;
    }
    Vector<T, Isa> tile[Taps];
#pragma GCC unroll 9
    for (std::size_t t = 0; t < Taps; ++t) tile[t] = Vector<T, Isa>{};
    const T* deltas = run.deltas;
    std::size_t from = 0;
    for (std::size_t p = run.pixels; p > 0; --p, from += in_step, deltas += out_step)
      for (std::size_t i = 0; i < batch; i += n) {
        Vector<T, Isa> gradient;
        load(gradient, deltas + i);
#pragma GCC unroll 9
        for (std::size_t t = 0; t < Taps; ++t) {
          Vector<T, Isa> in;
          load(in, inputs[t] + from + i);
          accumulate(tile[t], in, gradient);
        }
      }
#pragma GCC unroll 9
    for (std::size_t t = 0; t < Taps; ++t) {
      if (t >= count) break;
      Vector<T, Isa> sum;
      load(sum, sums + places[t]);
      sum += tile[t];
      store(sums + places[t], sum);
    }
  }
};

}}}  // namespace lockstep::kernels

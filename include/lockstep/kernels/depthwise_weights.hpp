// Depthwise convolution, each channel with its filters: gradients of weights and bias.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/convolution_size.hpp"
#include "lockstep/kernels/depthwise.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/transpose.hpp"
#include "lockstep/kernels/vector.hpp"

// The sums of each lane are kept, for one block of channels at a time: first in registers, for a
// few taps and the pixels of one row, then in scratch. Lanes are added up at the end.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

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

  /// Of filter f in one row of outputs.
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

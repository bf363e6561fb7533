// Gradients of a convolution's weights and bias, summed up by lanes: for few weights.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/convolution.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/transpose.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

[[nodiscard]] constexpr std::size_t tap_count(const ConvolutionSize& s) noexcept {
  return s.taps() * s.channels;
}

/// Pixels whose deltas are collected together: enough that the sums are seldom loaded, and few
/// enough for the caches.
inline constexpr std::size_t lane_group = 8;

/// Filters are padded to a multiple of the largest tile.
[[nodiscard]] constexpr std::size_t padded_filters(std::size_t filters) noexcept {
  return (filters + 3) / 4 * 4;
}

/// Scratch of the gradient by lanes.
template <class T>
struct LaneScratch {
  T* zeros = nullptr;   ///< a feature that is zero
  T* sums = nullptr;    ///< [taps + 1][filters][lanes]
  T* deltas = nullptr;  ///< [padded filters][lane_group][batch]
};

[[nodiscard]] constexpr std::size_t lane_sums(const ConvolutionSize& s) noexcept {
  return (tap_count(s) + 1) * s.filters * 16;
}

[[nodiscard]] constexpr std::size_t lane_deltas(const ConvolutionSize& s) noexcept {
  return padded_filters(s.filters) * lane_group * s.batch;
}

/// Elements of scratch.
[[nodiscard]] constexpr std::size_t lane_scratch(const ConvolutionSize& s) noexcept {
  return s.batch + lane_sums(s) + lane_deltas(s);
}

}  // namespace detail

/// One row of outputs of the gradient by lanes of one group, for kernels::dispatch:
/// sums[tap][filter][lane] += sum over pixels and vectors of the batch of x[pixel + tap] *
/// delta[pixel][filter], and the same with 1 instead of x in the last tap (the bias).
template <class T>
struct ConvolutionLanes {
  const ConvolutionSize& size;
  std::size_t row = 0;   ///< of all planes
  const T* x = nullptr;  ///< of the group's first channel
  Delta<T> delta;        ///< of the group's first filter
  detail::LaneScratch<T> scratch;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    // Columns [inside.begin, inside.end) have all their taps inside the input.
    Range inside;
    inside.begin =
        std::min((size.pad_left + size.stride_width - 1) / size.stride_width, size.out_width);
    inside.end = inside.begin;
    const std::size_t covered = (size.kernel_width - 1) * size.dilation_width + 1;
    while (inside.end < size.out_width &&
           inside.end * size.stride_width + covered <= size.width + size.pad_left)
      ++inside.end;
    for (std::size_t column = 0; column < size.out_width;) {
      const bool is_inside = column >= inside.begin && column < inside.end;
      const std::size_t pixels = is_inside ? std::min(detail::lane_group, inside.end - column) : 1;
      // On 16 registers: 10 sums, 2 deltas, 1 input; on 32: 20, 4, 1.
      if constexpr (Isa::registers == 32)
        add_pixels<Isa, 5, 4>(column, pixels);
      else
        add_pixels<Isa, 5, 2>(column, pixels);
      column += pixels;
    }
  }

 private:
  template <class Isa, std::size_t Taps, std::size_t Filters>
  LOCKSTEP_KERNEL void add_pixels(std::size_t column, std::size_t pixels) const {
    const std::size_t taps = detail::tap_count(size);
    collect_deltas<Isa, Filters>(row * size.out_width + column, pixels);
    for (std::size_t tap = 0; tap < taps; tap += Taps) {
      // Taps and filters beyond the last one are computed, of zeros, and not stored.
      const T* inputs[Taps];
      std::size_t step = size.stride_width * size.all_channels() * size.batch;
      bool linear = step == size.batch;  // all samples of all pixels lie one after the other
      std::size_t steps[Taps];
      for (std::size_t t = 0; t < Taps; ++t) {
        inputs[t] = tap + t < taps ? find_input(tap + t, column) : nullptr;
        steps[t] = inputs[t] == nullptr ? 0 : step;
        if (inputs[t] != nullptr) continue;
        inputs[t] = scratch.zeros;
        linear = linear && pixels == 1;
      }
      const std::size_t runs = linear ? 1 : pixels;
      const std::size_t run = linear ? pixels * size.batch : size.batch;
      const T* deltas = scratch.deltas;
      for (std::size_t filter = 0; filter < size.filters; filter += Filters) {
        T* sums = scratch.sums + (tap * size.filters + filter) * lanes<T, Isa>;
        add_tile<Isa, Taps, Filters>(sums, std::min(Taps, taps - tap),
                                     std::min(Filters, size.filters - filter), inputs, steps,
                                     deltas, runs, run);
        deltas += Filters * pixels * size.batch;
      }
    }
  }

  /// scratch.deltas[filter / Filters][pixel and sample][filter % Filters], a vector of samples at a
  /// time: in the order in which they are used, whereas they lie far apart in dy. And the bias's
  /// sums.
  template <class Isa, std::size_t Filters>
  LOCKSTEP_KERNEL void collect_deltas(std::size_t pixel, std::size_t pixels) const {
    constexpr std::size_t n = lanes<T, Isa>;
    // (Locals, as the compiler must take it that a store changes members.)
    const T minimum = delta.minimum;
    T* const masked = delta.masked;
    const std::size_t batch = size.batch;
    const std::size_t filters = size.filters;
    const std::size_t other_filters = (size.all_filters() - filters) * batch;
    const T* gradients = delta.dy + pixel * size.all_filters() * batch;
    const std::ptrdiff_t to_values = delta.y - delta.dy;
    constexpr std::size_t ahead = 2048;  // hardware prefetchers stop at the end of each page
    for (std::size_t p = 0; p < pixels; ++p) {
      T* bias_sums = scratch.sums + detail::tap_count(size) * filters * n;
      for (std::size_t filter = 0; filter < filters; ++filter) {
        T* to = scratch.deltas + ((filter / Filters * pixels + p) * batch * Filters) +
                filter % Filters * n;
        Vector<T, Isa> bias_sum;
        load(bias_sum, bias_sums);
        for (const T* end = gradients + batch; gradients != end; gradients += n) {
          Vector<T, Isa> gradient, value;
          load(gradient, gradients);
          load(value, gradients + to_values);
          __builtin_prefetch(gradients + ahead, 0, 2);
          __builtin_prefetch(gradients + to_values + ahead, 0, 2);
          gradient = value <= minimum ? Vector<T, Isa>{} : gradient;
          if (masked != nullptr) store(masked + (gradients - delta.dy), gradient);
          bias_sum += gradient;
          store(to, gradient);
          to += Filters * n;
        }
        store(bias_sums, bias_sum);
        bias_sums += n;
      }
      gradients += other_filters;
    }
  }

  /// Where tap number `tap` of the pixel in `column` lies; null: outside the input.
  LOCKSTEP_KERNEL const T* find_input(std::size_t tap, std::size_t column) const {
    const std::size_t channel = tap % size.channels;
    const std::size_t kernel_row = tap / size.channels / size.kernel_width;
    const std::size_t tap_plane = kernel_row / size.kernel_height;
    const std::size_t tap_row = kernel_row % size.kernel_height;
    const std::size_t tap_column = tap / size.channels % size.kernel_width;
    const std::size_t input_plane = row / size.out_height * size.stride_depth +
                                    tap_plane * size.dilation_depth - size.pad_front;
    const std::size_t input_row =
        row % size.out_height * size.stride_height + tap_row * size.dilation_height - size.pad_top;
    const std::size_t input_column =
        column * size.stride_width + tap_column * size.dilation_width - size.pad_left;
    if (input_plane >= size.depth || input_row >= size.height || input_column >= size.width)
      return nullptr;  // (also below zero, as it wraps)
    const std::size_t pixel = (input_plane * size.height + input_row) * size.width + input_column;
    return x + (pixel * size.all_channels() + channel) * size.batch;
  }

  template <class Isa, std::size_t Taps, std::size_t Filters>
  LOCKSTEP_KERNEL void add_tile(T* sums, std::size_t valid_taps, std::size_t valid_filters,
                                const T* const (&inputs)[Taps], const std::size_t (&steps)[Taps],
                                const T* deltas, std::size_t runs, std::size_t run) const {
    constexpr std::size_t n = lanes<T, Isa>;
    const std::size_t tap_step = size.filters * n;
    const T* input[Taps];
    Vector<T, Isa> tile[Taps][Filters];
#pragma GCC unroll 16
    for (std::size_t t = 0; t < Taps; ++t) {
      input[t] = inputs[t];
#pragma GCC unroll 4
      for (std::size_t f = 0; f < Filters; ++f) tile[t][f] = Vector<T, Isa>{};
    }
    for (; runs > 0; --runs) {
      for (std::size_t b = 0; b < run; b += n) {
        Vector<T, Isa> delta_vectors[Filters];
#pragma GCC unroll 4
        for (std::size_t f = 0; f < Filters; ++f) load(delta_vectors[f], deltas + f * n);
        deltas += Filters * n;
#pragma GCC unroll 16
        for (std::size_t t = 0; t < Taps; ++t) {
          Vector<T, Isa> in;
          load(in, input[t] + b);
#pragma GCC unroll 4
          for (std::size_t f = 0; f < Filters; ++f) accumulate(tile[t][f], in, delta_vectors[f]);
        }
      }
#pragma GCC unroll 16
      for (std::size_t t = 0; t < Taps; ++t) input[t] += steps[t];
    }
#pragma GCC unroll 16
    for (std::size_t t = 0; t < Taps; ++t)
#pragma GCC unroll 4
      for (std::size_t f = 0; f < Filters; ++f) {
        if (t >= valid_taps || f >= valid_filters) continue;
        Vector<T, Isa> sum;
        load(sum, sums + t * tap_step + f * n);
        sum += tile[t][f];
        store(sums + t * tap_step + f * n, sum);
      }
  }
};

/// The last step of the gradient by lanes, for kernels::dispatch: to[i] = sum of the lanes of
/// sums[i].
template <class T>
struct AddLanes {
  const T* sums = nullptr;
  std::size_t count = 0;
  T* to = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    for (std::size_t i = 0; i < count; ++i) {
      Vector<T, Isa> sum;
      load(sum, sums + i * lanes<T, Isa>);
      to[i] = sum_of_lanes<T>(sum);
    }
  }
};

namespace detail {

/// For one group: x, delta and the gradients begin with its first channel and filter.
template <class T>
void convolution_weight_gradient_by_lane(const ConvolutionSize& s, const T* x,
                                         const Delta<T>& delta, T* weight_gradient,
                                         T* bias_gradient, T* scratch) {
  const std::size_t weights = tap_count(s) * s.filters;
  const LaneScratch<T> parts{scratch, scratch + s.batch, scratch + s.batch + lane_sums(s)};
  std::fill(parts.zeros, parts.deltas, T(0));
  std::fill_n(parts.deltas, lane_deltas(s), T(0));
  for (std::size_t row = 0; row < s.out_rows(); ++row)
    dispatch(ConvolutionLanes<T>{s, row, x, delta, parts});
  dispatch([=, &s]<class Isa>() LOCKSTEP_KERNEL_LAMBDA {
    const std::size_t run =
        s.groups == 1 ? weights : s.filters;  // weights that lie one after the other
    T* to = weight_gradient;
    for (std::size_t first = 0; first < weights; first += run, to += s.all_filters())
      AddLanes<T>{parts.sums + first * lanes<T, Isa>, run, to}.template operator()<Isa>();
    if (bias_gradient != nullptr)
      AddLanes<T>{parts.sums + weights * lanes<T, Isa>, s.filters, bias_gradient}
          .template operator()<Isa>();
  });
}

}  // namespace detail
}}}  // namespace lockstep::kernels

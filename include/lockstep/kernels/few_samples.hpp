// Dense layers and convolutions of a few samples, whose numbers lie one after the other.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/kernels/convolution_size.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/other_weights.hpp"
#include "lockstep/kernels/product_layout.hpp"
#include "lockstep/kernels/vector.hpp"

// Here the units of a layer are vectorised, not the samples: nothing is computed for padding, and
// weights are read in the order in which they lie. Each sum has the order of the kernels for
// batches (see product.hpp), and so the same bits.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

/// v = p[0 ... count - 1], and perhaps elements that follow before `end`.
template <class T, class V>
LOCKSTEP_KERNEL void load_inside(V& v, const T* p, std::size_t count, const T* end) {
  if (static_cast<std::size_t>(end - p) >= sizeof(V) / sizeof(T)) [[likely]]
    load(v, p);
  else
    load_first(v, p, count);
}

}  // namespace detail

/// y[sample][unit] = finish(bias[unit] + sum over i of weights[i][unit] * x[sample][i]), for
/// kernels::dispatch. bias may be null: zero.
template <class T>
struct DenseOfFew {
  std::size_t samples = 0, inputs = 0, units = 0;
  const T* x = nullptr;
  const T* weights = nullptr;
  const T* bias = nullptr;
  T* y = nullptr;
  Finish<T> finish = {};

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    const DenseOfFew s = *this;
    for (std::size_t unit = 0; unit < s.units; unit += units_at_once) {
      const std::size_t count = std::min(units_at_once, s.units - unit);
      std::size_t sample = 0;
      for (; sample + 4 <= s.samples; sample += 4) s.template sums_of<Isa, 4>(sample, unit, count);
      for (; sample < s.samples; ++sample) s.template sums_of<Isa, 1>(sample, unit, count);
    }
  }

 private:
  static constexpr std::size_t units_at_once = 512;  // whose sums stay in the first-level cache
  // Weights that take more come from memory, or from a cache that others share, and prefetches of
  // rows so far ahead save a fifth of the time. Else they cost a third.
  static constexpr std::size_t cached_bytes = std::size_t{4} << 20;
  static constexpr std::size_t fetched_ahead = 16;

  template <class Isa, std::size_t Samples>
  LOCKSTEP_KERNEL void sums_of(std::size_t sample, std::size_t unit, std::size_t count) const {
    using V = Vector<T, Isa>;
    constexpr std::size_t n = lanes<T, Isa>;
    alignas(cache_line) T sums[Samples][units_at_once], totals[Samples][units_at_once];
    std::size_t k = 0;
    do {
      const std::size_t block = std::min(inner_block, inputs - k);
      for (std::size_t u = 0; u < count; u += n) {
        V start{};
        if (k == 0 && bias != nullptr) {
          V first;
          load_first(first, bias + unit + u, count - u);
          start += first;
        }
        for (std::size_t r = 0; r < Samples; ++r) store(&sums[r][u], start);
      }
      const std::size_t end = k + block;
      std::size_t i = k;
      if (inputs * units * sizeof(T) > cached_bytes)
        for (; i + 4 <= end; i += 4)
          add_inputs<Isa, Samples, 4, true>(sample, i, unit, count, sums);
      for (; i + 4 <= end; i += 4) add_inputs<Isa, Samples, 4, false>(sample, i, unit, count, sums);
      for (; i < end; ++i) add_inputs<Isa, Samples, 1, false>(sample, i, unit, count, sums);
      for (std::size_t r = 0; r < Samples; ++r)
        for (std::size_t u = 0; u < count; u += n) {
          V sum;
          load(sum, &sums[r][u]);
          if (k > 0) {
            V total;
            load(total, &totals[r][u]);
            sum += total;
          }
          store(&totals[r][u], sum);
        }
      k = end;
    } while (k < inputs);
    for (std::size_t r = 0; r < Samples; ++r)
      for (std::size_t u = 0; u < count; u += n) {
        V total;
        load(total, &totals[r][u]);
        total = total < finish.minimum ? finish.minimum - V{} : total;
        store_first(y + (sample + r) * units + unit + u, total, count - u);
      }
  }

  /// sums += weights * x for the inputs i, i + 1, ... Perhaps fetches the weights of later ones.
  template <class Isa, std::size_t Samples, std::size_t Inputs, bool Fetches>
  LOCKSTEP_KERNEL void add_inputs(std::size_t sample, std::size_t i, std::size_t unit,
                                  std::size_t count, T (&sums)[Samples][units_at_once]) const {
    using V = Vector<T, Isa>;
    constexpr std::size_t n = lanes<T, Isa>;
    const T* const rows = weights + i * units + unit;
    const T* const end = weights + inputs * units;
    T factors[Samples][Inputs];
    for (std::size_t r = 0; r < Samples; ++r)
#pragma GCC unroll 4
      for (std::size_t j = 0; j < Inputs; ++j) factors[r][j] = x[(sample + r) * inputs + i + j];
    for (std::size_t u = 0; u < count; u += n) {
      V row[Inputs];
#pragma GCC unroll 4
      for (std::size_t j = 0; j < Inputs; ++j)
        detail::load_inside(row[j], rows + j * units + u, count - u, end);
      if constexpr (Fetches) {
#pragma GCC unroll 4
        for (std::size_t part = 0; part < Inputs * n; part += cache_line / sizeof(T))
          __builtin_prefetch(rows + fetched_ahead * units + Inputs * u + part);
      }
#pragma GCC unroll 4
      for (std::size_t r = 0; r < Samples; ++r) {
        V sum;
        load(sum, &sums[r][u]);
#pragma GCC unroll 4
        for (std::size_t j = 0; j < Inputs; ++j) accumulate(sum, row[j], factors[r][j]);
        store(&sums[r][u], sum);
      }
    }
  }
};

/// The same, also of weights of another format.
template <class T>
void few_forward(const DenseOfFew<T>& d) {
  if (other_weights<T>.holds(d.weights))
    return other_weights<T>.multiply({d.inputs,
                                      d.units,
                                      d.samples,
                                      d.x,
                                      {d.inputs, 1},
                                      d.weights,
                                      d.bias,
                                      d.y,
                                      {d.units, 1},
                                      d.finish});
  dispatch(d);
}

/// y[sample][pixel][filter] = finish(bias[filter] + sum over the kernel's taps and channels of
/// weights * x), for kernels::dispatch; size.batch is the number of samples. Not where each channel
/// has its filters. bias may be null: zero.
template <class T>
struct ConvolutionOfFew {
  ConvolutionSize size;
  const T* x = nullptr;
  const T* weights = nullptr;
  const T* bias = nullptr;
  T* y = nullptr;
  Finish<T> finish = {};

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    constexpr std::size_t n = lanes<T, Isa>;
    const ConvolutionOfFew c = *this;
    const ConvolutionSize& s = c.size;
    for (std::size_t sample = 0; sample < s.batch; ++sample)
      for (std::size_t row = 0; row < s.out_rows(); ++row) {
        const TapLine tap_planes = taps_to_input(row / s.out_height, s.stride_depth, s.pad_front,
                                                 s.kernel_depth, s.depth, s.dilation_depth);
        const TapLine tap_rows = taps_to_input(row % s.out_height, s.stride_height, s.pad_top,
                                               s.kernel_height, s.height, s.dilation_height);
        for (std::size_t column = 0; column < s.out_width; ++column) {
          const TapLine taps = taps_to_input(column, s.stride_width, s.pad_left, s.kernel_width,
                                             s.width, s.dilation_width);
          const Place place{(sample * s.out_rows() + row) * s.out_width + column,
                            x + sample * s.rows() * s.width * s.all_channels(), tap_planes,
                            tap_rows, taps};
          for (std::size_t group = 0; group < s.groups; ++group) {
            std::size_t filter = 0;
            for (; filter + 4 * n <= s.filters; filter += 4 * n)
              c.template pixel<Isa, 4>(place, group, filter);
            for (; filter + 2 * n <= s.filters; filter += 2 * n)
              c.template pixel<Isa, 2>(place, group, filter);
            for (; filter < s.filters; filter += n) c.template pixel<Isa, 1>(place, group, filter);
          }
        }
      }
  }

 private:
  struct Place {
    std::size_t pixel;  ///< of y, counted through all samples
    const T* sample;
    TapLine tap_planes, tap_rows, taps;
  };

  /// So many vectors of filters, from number `filter` of the group on.
  template <class Isa, std::size_t Vectors>
  LOCKSTEP_KERNEL void pixel(const Place& at, std::size_t group, std::size_t filter) const {
    using V = Vector<T, Isa>;
    constexpr std::size_t n = lanes<T, Isa>;
    const ConvolutionSize s = size;
    const std::size_t channels = s.all_channels(), filters = s.all_filters();
    const std::size_t first = group * s.filters + filter, count = s.filters - filter;
    const T* const end = weights + s.weights();
    V sums[Vectors] = {}, totals[Vectors] = {};
    if (bias != nullptr) {
#pragma GCC unroll 4
      for (std::size_t v = 0; v < Vectors; ++v) {
        V values;
        load_first(values, bias + first + v * n, count - v * n);
        sums[v] += values;
      }
    }
    // As detail::Accumulation has them.
    constexpr std::size_t most_runs = 16;
    bool has_totals = false;
    std::size_t pending = 0, runs = 0;
    const auto flush = [&]() LOCKSTEP_KERNEL_LAMBDA {
#pragma GCC unroll 4
      for (std::size_t v = 0; v < Vectors; ++v) {
        totals[v] = has_totals ? sums[v] + totals[v] : sums[v];
        sums[v] = V{};
      }
      has_totals = true;
      pending = runs = 0;
    };
    const bool in_a_row = s.groups == 1 && s.dilation_width == 1;
    const std::size_t tap_runs = in_a_row ? std::min<std::size_t>(at.taps.count, 1) : at.taps.count;
    const std::size_t summands = in_a_row ? at.taps.count * s.channels : s.channels;
    for (std::size_t p = 0; p < at.tap_planes.count; ++p)
      for (std::size_t i = 0; i < at.tap_rows.count; ++i)
        for (std::size_t run = 0; run < tap_runs; ++run) {
          const std::size_t tap_row =
              at.tap_planes.tap_at(p) * s.kernel_height + at.tap_rows.tap_at(i);
          const std::size_t place = at.tap_planes.place_at(p) * s.height + at.tap_rows.place_at(i);
          const std::size_t tap = tap_row * s.kernel_width + at.taps.tap_at(run);
          const std::size_t pixel = place * s.width + at.taps.place_at(run);
          const T* row = weights + tap * s.channels * filters + first;
          const T* value = at.sample + pixel * channels + group * s.channels;
          for (std::size_t left = summands; left > 0;) {
            const std::size_t piece = std::min(left, inner_block);
            if (runs == most_runs || pending + piece > inner_block) flush();
            for (std::size_t k = 0; k < piece; ++k, ++value, row += filters)
#pragma GCC unroll 4
              for (std::size_t v = 0; v < Vectors; ++v) {
                V of_filters;
                detail::load_inside(of_filters, row + v * n, count - v * n, end);
                accumulate(sums[v], of_filters, *value);
              }
            ++runs;
            pending += piece;
            left -= piece;
          }
        }
    flush();
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vectors; ++v) {
      totals[v] = totals[v] < finish.minimum ? finish.minimum - V{} : totals[v];
      store_first(y + at.pixel * filters + first + v * n, totals[v], count - v * n);
    }
  }
};

LOCKSTEP_KERNEL_INSTANCES(DenseOfFew);
LOCKSTEP_EXTERN(void few_forward<float>(const DenseOfFew<float>&));
LOCKSTEP_EXTERN_DOUBLE(void few_forward<double>(const DenseOfFew<double>&));
LOCKSTEP_KERNEL_INSTANCES(ConvolutionOfFew);

}}}  // namespace lockstep::kernels

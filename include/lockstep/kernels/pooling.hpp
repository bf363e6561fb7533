// Means, sums and maxima of windows over an image, and their gradients.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/convolution.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/vector_loops.hpp"

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

/// y = the mean x of each window, or the sum, for kernels::dispatch; what lies outside the image
/// does not count.
template <class T, bool Mean = true>
struct AveragePooling {
  PoolingSize size;
  const T* x = nullptr;
  T* y = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const PoolingSize s = size;
    for_each_window(s, [&](const Window& window) LOCKSTEP_KERNEL_LAMBDA {
      const T* const from = x + window.first * s.pixel;
      T* const to = y + window.out * s.pixel;
      const P scale(T(1) / static_cast<T>(Mean ? window.rows * window.columns : 1));
      for_each_piece<Isa, T>(
          s.pixel, [&]<std::size_t Vectors>(std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
            P sum[Vectors];
            for (std::size_t v = 0; v < Vectors; ++v) sum[v] = P(T(0));
            for (std::size_t row = 0; row < window.rows; ++row)
              for (std::size_t column = 0; column < window.columns; ++column) {
                const T* const tap = from + (row * s.width + column) * s.pixel + i;
                for (std::size_t v = 0; v < Vectors; ++v) sum[v] += P(tap + v * P::size);
              }
            for (std::size_t v = 0; v < Vectors; ++v) (sum[v] * scale).store(to + i + v * P::size);
          });
    });
  }
};

/// dx = the sum over the windows that an element is in of dy, divided by the window's number of
/// elements for the mean, for kernels::dispatch.
template <class T, bool Mean = true>
struct AveragePoolingGradient {
  PoolingSize size;
  const T* dy = nullptr;
  T* dx = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    const PoolingSize s = size;
    for (std::size_t row = 0; row < s.height; ++row) {
      const Range rows = windows_over(row, s.pad_top, s.pool_height, s.stride_height, s.out_height);
      for (std::size_t column = 0; column < s.width; ++column) {
        const Range columns =
            windows_over(column, s.pad_left, s.pool_width, s.stride_width, s.out_width);
        T* const to = dx + (row * s.width + column) * s.pixel;
        if (rows.size() == 0 || columns.size() == 0) std::fill_n(to, s.pixel, T(0));
        for (std::size_t out_row = rows.begin; out_row < rows.end; ++out_row)
          for (std::size_t out_column = columns.begin; out_column < columns.end; ++out_column) {
            const Range taps_down =
                taps_inside(out_row * s.stride_height, s.pad_top, s.pool_height, s.height);
            const Range taps_across =
                taps_inside(out_column * s.stride_width, s.pad_left, s.pool_width, s.width);
            const T scale = T(1) / static_cast<T>(Mean ? taps_down.size() * taps_across.size() : 1);
            const T* const from = dy + (out_row * s.out_width + out_column) * s.pixel;
            if (out_row == rows.begin && out_column == columns.begin)
              add<Isa, false>(scale, from, to);
            else
              add<Isa, true>(scale, from, to);
          }
      }
    }
  }

 private:
  /// Which windows contain this row (or column) of the image.
  [[nodiscard]] static constexpr Range windows_over(std::size_t position, std::size_t pad,
                                                    std::size_t pool, std::size_t stride,
                                                    std::size_t windows) noexcept {
    const std::size_t place = position + pad;
    const std::size_t begin = place < pool ? 0 : (place - pool) / stride + 1;
    const std::size_t end = std::min(windows, place / stride + 1);
    return {std::min(begin, end), end};
  }

  template <class Isa, bool Onto>
  LOCKSTEP_KERNEL void add(T scale, const T* from, T* to) const {
    using P = Pack<T, Isa::vector_bytes>;
    for (std::size_t i = 0; i < size.pixel; i += P::size) {
      P share = P(scale) * P(from + i);
      if constexpr (Onto) share += P(static_cast<const T*>(to + i));
      share.store(to + i);
    }
  }
};

LOCKSTEP_KERNEL_INSTANCES(AveragePooling, true);
LOCKSTEP_KERNEL_INSTANCES(AveragePooling, false);
LOCKSTEP_KERNEL_INSTANCES(AveragePoolingGradient, true);
LOCKSTEP_KERNEL_INSTANCES(AveragePoolingGradient, false);

/// y = the largest x of each window, for kernels::dispatch; NaN where one of them is NaN.
template <class T>
struct MaxPooling {
  PoolingSize size;
  const T* x = nullptr;
  T* y = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const PoolingSize s = size;
    for_each_window(s, [&](const Window& window) LOCKSTEP_KERNEL_LAMBDA {
      const T* const from = x + window.first * s.pixel;
      T* const to = y + window.out * s.pixel;
      for_each_piece<Isa, T>(
          s.pixel, [&]<std::size_t Vectors>(std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
            // Two accumulators, because g++ would make one mask of two comparisons for one, and
            // takes such masks apart.
            P largest[Vectors], not_a_number[Vectors];
            for (std::size_t v = 0; v < Vectors; ++v) {
              largest[v] = P(from + i + v * P::size);
              not_a_number[v] = P(T(0));
            }
            for (std::size_t row = 0; row < window.rows; ++row)
              for (std::size_t column = 0; column < window.columns; ++column) {
                const T* const tap = from + (row * s.width + column) * s.pixel + i;
                for (std::size_t v = 0; v < Vectors; ++v) {
                  const P value(tap + v * P::size);
                  largest[v] = max(value, largest[v]);
                  not_a_number[v] = select(value != value, value, not_a_number[v]);
                }
              }
            for (std::size_t v = 0; v < Vectors; ++v)
              select(not_a_number[v] == not_a_number[v], largest[v], not_a_number[v])
                  .store(to + i + v * P::size);
          });
    });
  }
};

/// dx = the sum of dy over the windows whose maximum an element is, for kernels::dispatch; of
/// several equal ones the first in row-major order is the maximum, as in TensorFlow. It is found by
/// comparing x with y again: no index is stored, and x is read anyway, as an index would be.
template <class T>
struct MaxPoolingGradient {
  PoolingSize size;
  const T* x = nullptr;
  const T* y = nullptr;
  const T* dy = nullptr;
  T* dx = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    const bool disjoint =
        size.stride_height >= size.pool_height && size.stride_width >= size.pool_width;
    const bool complete =
        size.stride_height <= size.pool_height && size.stride_width <= size.pool_width &&
        (size.out_height - 1) * size.stride_height + size.pool_height >=
            size.height + size.pad_top &&
        (size.out_width - 1) * size.stride_width + size.pool_width >= size.width + size.pad_left;
    // With pool and stride alike, as usual, each element is written once.
    if (!disjoint || !complete) std::fill_n(dx, size.height * size.width * size.pixel, T(0));
    if (disjoint)
      run<Isa, false>();
    else
      run<Isa, true>();
  }

 private:
  template <class Isa, bool Add>
  LOCKSTEP_KERNEL void run() const {
    using P = Pack<T, Isa::vector_bytes>;
    const PoolingSize s = size;
    for_each_window(s, [&](const Window& window) LOCKSTEP_KERNEL_LAMBDA {
      const std::size_t out = window.out * s.pixel;
      for_each_piece<Isa, T>(
          s.pixel, [&]<std::size_t Vectors>(std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
            P largest[Vectors];
            P gradient[Vectors];  // zero once its element is found
            for (std::size_t v = 0; v < Vectors; ++v) {
              largest[v] = P(y + out + i + v * P::size);
              gradient[v] = P(dy + out + i + v * P::size);
            }
            for (std::size_t row = 0; row < window.rows; ++row)
              for (std::size_t column = 0; column < window.columns; ++column) {
                const std::size_t tap = (window.first + row * s.width + column) * s.pixel + i;
                for (std::size_t v = 0; v < Vectors; ++v) {
                  const auto found = P(x + tap + v * P::size) == largest[v];
                  P share = select(found, gradient[v], P(0));
                  gradient[v] = select(found, P(0), gradient[v]);
                  if constexpr (Add) share += P(static_cast<const T*>(dx + tap + v * P::size));
                  share.store(dx + tap + v * P::size);
                }
              }
          });
    });
  }
};

LOCKSTEP_KERNEL_INSTANCES(MaxPooling);
LOCKSTEP_KERNEL_INSTANCES(MaxPoolingGradient);

}}}  // namespace lockstep::kernels

// Means or sums of windows, and their gradient.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/pooling.hpp"
#include "lockstep/kernels/vector_loops.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

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

}}}  // namespace lockstep::kernels

// Maxima of windows, and their gradient.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/pooling.hpp"
#include "lockstep/kernels/vector_loops.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

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

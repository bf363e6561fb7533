// Rows of a table, chosen by number or by position, and their gradients.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/other_weights.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/transpose.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// to[d * stride + i] = table[ids[i] * width + d] for d below width and i below count, and zeros up
/// to the stride; for kernels::dispatch. A vector of rows at a time is transposed in registers.
template <class T>
struct GatherRows {
  const T* table = nullptr;
  std::size_t width = 0;
  const T* ids = nullptr;  ///< whole numbers
  std::size_t count = 0;
  std::size_t stride = 0;  ///< of `to`, a multiple of 16
  T* to = nullptr;
  std::size_t vocabulary = 0;  ///< rows of the table: what gather_rows needs

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using V = Vector<T, Isa>;
    constexpr std::size_t n = lanes<T, Isa>;
    const GatherRows s = *this;
    for (std::size_t i = 0; i < s.stride; i += n) {
      const T* rows[n];
      for (std::size_t k = 0; k < n; ++k)
        rows[k] =
            i + k < s.count ? s.table + static_cast<std::size_t>(s.ids[i + k]) * s.width : nullptr;
      for (std::size_t d = 0; d < s.width; d += n) {
        V block[n];
#pragma GCC unroll 16
        for (std::size_t k = 0; k < n; ++k) {
          block[k] = V{};
          if (rows[k] != nullptr) load_first(block[k], rows[k] + d, s.width - d);
        }
        detail::transpose_block(block);
#pragma GCC unroll 16
        for (std::size_t k = 0; k < n; ++k)
          if (d + k < s.width) store(s.to + (d + k) * s.stride + i, block[k]);
      }
    }
  }
};

/// The same, also of a table of another format; with a stride of 1, of a single row.
template <class T>
void gather_rows(const GatherRows<T>& g) {
  if (other_weights<T>.holds(g.table))
    other_weights<T>.gather(g);
  else if (g.stride == 1)
    std::copy_n(g.table + static_cast<std::size_t>(g.ids[0]) * g.width, g.width, g.to);
  else
    dispatch(g);
}

/// gradient[ids[i] * width + d] += dy[d * stride + i], for d below width and i below count, in the
/// order of i, for kernels::dispatch.
template <class T>
struct ScatterRows {
  const T* dy = nullptr;  ///< zero in the padding
  const T* ids = nullptr;
  std::size_t count = 0;
  std::size_t stride = 0;
  std::size_t width = 0;
  T* gradient = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using V = Vector<T, Isa>;
    constexpr std::size_t n = lanes<T, Isa>;
    const ScatterRows s = *this;
    for (std::size_t i = 0; i < s.count; i += n)
      for (std::size_t d = 0; d < s.width; d += n) {
        V block[n];
#pragma GCC unroll 16
        for (std::size_t k = 0; k < n; ++k) {
          block[k] = V{};
          if (d + k < s.width) load(block[k], s.dy + (d + k) * s.stride + i);
        }
        detail::transpose_block(block);
        const std::size_t width_left = std::min(n, s.width - d);
        T values[n][n];
#pragma GCC unroll 16
        for (std::size_t k = 0; k < n; ++k) store(values[k], block[k]);
        for (std::size_t k = 0; k < n && i + k < s.count; ++k) {
          T* const row = s.gradient + static_cast<std::size_t>(s.ids[i + k]) * s.width + d;
          if (width_left == n) {
            V sum, more;
            load(sum, row);
            load(more, static_cast<const T*>(values[k]));
            sum += more;
            store(row, sum);
          } else {
            for (std::size_t j = 0; j < width_left; ++j) row[j] += values[k][j];
          }
        }
      }
  }
};

LOCKSTEP_KERNEL_INSTANCES(GatherRows);
LOCKSTEP_KERNEL_INSTANCES(ScatterRows);

/// Sequences in [feature][stride], those of one sample after those of another, beside an array
/// [feature][step] of one number for each position.
struct PositionSize {
  std::size_t samples = 0;
  std::size_t positions = 1;
  std::size_t features = 1;
  std::size_t stride = 0;
  std::size_t step = 0;  ///< the positions, padded to a multiple of 16
};

/// y = x + offsets[position], for kernels::dispatch. y may be x.
template <class T>
struct AddPositions {
  PositionSize size;
  const T* x = nullptr;
  const T* offsets = nullptr;
  T* y = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const AddPositions s = *this;
    const PositionSize z = s.size;
    for (std::size_t f = 0; f < z.features; ++f) {
      const std::size_t end = z.samples * z.positions;
      for (std::size_t sample = 0; sample < z.samples; ++sample)
        for (std::size_t t = 0; t < z.positions; t += P::size) {
          const std::size_t at = f * z.stride + sample * z.positions + t;
          const P offset(s.offsets + f * z.step + t);
          const std::size_t count = z.positions - t;
          (P::load_first(s.x + at, count) + offset).store_first(s.y + at, count);
        }
      std::copy(s.x + f * z.stride + end, s.x + (f + 1) * z.stride, s.y + f * z.stride + end);
    }
  }
};

/// sums[position] = the sum of dy over the samples, in their order, for kernels::dispatch.
template <class T>
struct SumPositions {
  PositionSize size;
  const T* dy = nullptr;
  T* sums = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const SumPositions s = *this;
    const PositionSize z = s.size;
    for (std::size_t f = 0; f < z.features; ++f)
      for (std::size_t t = 0; t < z.positions; t += P::size) {
        P sum(T(0));
        for (std::size_t sample = 0; sample < z.samples; ++sample)
          sum += P::load_first(s.dy + f * z.stride + sample * z.positions + t, z.positions - t);
        sum.store(s.sums + f * z.step + t);
      }
  }
};

LOCKSTEP_KERNEL_INSTANCES(AddPositions);
LOCKSTEP_KERNEL_INSTANCES(SumPositions);

}}}  // namespace lockstep::kernels

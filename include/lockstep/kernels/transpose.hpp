// Transposition in registers: of the batch-innermost layout, and of a part of a matrix.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/product_layout.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

/// low = a0 b0 a1 b1 ..., high = the other halves.
template <class V, std::size_t... I>
LOCKSTEP_KERNEL void interleave(const V& a, const V& b, V& low, V& high,
                                std::index_sequence<I...>) {
  constexpr int n = sizeof...(I);
  low = __builtin_shufflevector(a, b, (static_cast<int>(I) / 2 + (I % 2 ? n : 0))...);
  high = __builtin_shufflevector(a, b, (static_cast<int>(I) / 2 + n / 2 + (I % 2 ? n : 0))...);
}

/// block[i][j] becomes block[j][i], for as many vectors as each has lanes. Each round interleaves
/// vector k with vector k + n/2; after log2(n) rounds the block is transposed.
template <class V, std::size_t n>
LOCKSTEP_KERNEL void transpose_block(V (&block)[n]) {
  V mixed[n];
#pragma GCC unroll 4
  for (std::size_t round = 1; round < n; round *= 2) {
#pragma GCC unroll 8
    for (std::size_t k = 0; k < n / 2; ++k)
      detail::interleave(block[k], block[k + n / 2], mixed[2 * k], mixed[2 * k + 1],
                         std::make_index_sequence<n>{});
#pragma GCC unroll 16
    for (std::size_t k = 0; k < n; ++k) block[k] = mixed[k];
  }
}

}  // namespace detail

/// The gradient of a layer's output, before its activation function: 0 where y <= minimum, else dy;
/// so it is dy itself when minimum is NaN (then y may be dy). Where `masked` is not null, it is
/// written there too; that may be dy.
template <class T>
struct Delta {
  const T* dy = nullptr;
  const T* y = nullptr;
  T minimum = std::numeric_limits<T>::quiet_NaN();
  T* masked = nullptr;
};

/// The panels of a transposed delta with these rows and columns, in which a register tile finds all
/// that it needs in one run.
[[nodiscard]] constexpr Panels transposed_panels(std::size_t rows, std::size_t columns) noexcept {
  return {std::min(padded_columns(rows), panel_columns), panel_columns * columns};
}

/// Elements that they take.
[[nodiscard]] constexpr std::size_t transposed_size(std::size_t rows,
                                                    std::size_t columns) noexcept {
  const std::size_t panels = (rows + panel_columns - 1) / panel_columns;
  return panels * transposed_panels(rows, columns).step * columns;
}

/// to[panels.offset(i) + j * panels.step] = delta[i * row_step + j], for kernels::dispatch; columns
/// is a multiple of 16. Padding of `to`, up to a multiple of 16 rows, becomes zero. What follows
/// the delta in memory is fetched ahead: it is the next pixel's.
template <class T>
struct Transpose {
  Delta<T> delta;
  std::size_t rows = 0;
  std::size_t columns = 0;
  T* to = nullptr;
  Panels panels;
  std::size_t row_step = columns;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using V = Vector<T, Isa>;
    constexpr std::size_t n = lanes<T, Isa>;
    const Delta<T> from = delta;
    const std::size_t step = panels.step;
    const std::size_t next = row_step == columns ? rows * columns : columns;
    for (std::size_t i = 0; i < padded_columns(rows); i += n) {
      const std::size_t first = panels.offset(i);
      for (std::size_t j = 0; j < columns; j += n) {
        V block[n];
#pragma GCC unroll 16
        for (std::size_t k = 0; k < n; ++k) {
          block[k] = V{};
          if (i + k >= rows) continue;
          const std::size_t place = (i + k) * row_step + j;
          V y;
          load(block[k], from.dy + place);
          load(y, from.y + place);
          block[k] = y <= from.minimum ? V{} : block[k];
          if (from.masked != nullptr) store(from.masked + place, block[k]);
          __builtin_prefetch(from.dy + place + next, 0, 2);
          __builtin_prefetch(from.y + place + next, 0, 2);
        }
        detail::transpose_block(block);
#pragma GCC unroll 16
        for (std::size_t k = 0; k < n; ++k) store(to + first + (j + k) * step, block[k]);
      }
    }
  }
};

/// to[j * to_step + i] = from[i * from_step + j] for rows i and columns j of `from`, for
/// kernels::dispatch. Rows of `to` are filled up with zeros to to_columns elements. Nothing else is
/// read or written.
template <class T>
struct TransposePart {
  const T* from = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t from_step = 0;
  T* to = nullptr;
  std::size_t to_columns = 0;  ///< at least `rows`
  std::size_t to_step = 0;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using V = Vector<T, Isa>;
    constexpr std::size_t n = lanes<T, Isa>;
    const TransposePart s = *this;
    for (std::size_t i = 0; i < s.to_columns; i += n) {
      for (std::size_t j = 0; j < s.columns; j += n) {
        V block[n];
#pragma GCC unroll 16
        for (std::size_t k = 0; k < n; ++k) {
          block[k] = V{};
          if (i + k < s.rows)
            load_first(block[k], s.from + (i + k) * s.from_step + j, s.columns - j);
        }
        detail::transpose_block(block);
#pragma GCC unroll 16
        for (std::size_t k = 0; k < n; ++k)
          if (j + k < s.columns)
            store_first(s.to + (j + k) * s.to_step + i, block[k], s.to_columns - i);
      }
    }
  }
};

LOCKSTEP_KERNEL_INSTANCES(TransposePart);

}}}  // namespace lockstep::kernels

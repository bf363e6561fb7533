// The register tile: the one inner loop of all matrix products and convolutions.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/vector.hpp"

// Vocabulary of the products: C[m][n] = sum over k of A(m, k) * B[k][n]. Columns n are contiguous
// and vectorised: the samples of a feature, or (for weight gradients) the units of a transposed
// delta. Elements of A are read one by one and broadcast. Each element of C is the sum of its
// segments in order, each of them k by k, whatever the size of the tile that it falls in.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// A run of k: A(m, k) = a[m * row_step + k * a_step], row k of B starts at b + k * b_step. (The
/// steps are the product's.)
template <class T>
struct Segment {
  const T* a = nullptr;
  const T* b = nullptr;
  std::size_t count = 0;
};

/// Memory that will be read or written soon, `rows` runs of it: a cursor moves over each, a part of
/// a cache line for each k. (Blocks of A, B and C lie far apart, or are too short for what hardware
/// prefetchers look for.)
struct Ahead {
  const char* next = nullptr;
  std::size_t row_bytes = 0;
  std::size_t rows = 0;
  std::size_t step = 0;  ///< from a row to the next, in bytes
};

/// Rows x Columns (in vectors) of C that stay in registers. Columns are always a multiple of 16
/// elements.
template <std::size_t Rows, std::size_t Columns>
struct Tile {
  static constexpr std::size_t rows = Rows;
  static constexpr std::size_t columns = Columns;
};

/// The rows of A that a tile multiplies, `step` elements apart. Four of them share a pointer, and
/// an instruction adds a multiple of the step to it: a register for each row would be too many.
template <class T, std::size_t R>
struct EvenRows {
  std::size_t step = 0;
  const T* fours[(R + 3) / 4] = {};

  LOCKSTEP_KERNEL void begin(const T* a) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < (R + 3) / 4; ++i) fours[i] = a + 4 * i * step;
  }
  LOCKSTEP_KERNEL T get(std::size_t r) const { return fours[r / 4][r % 4 * step]; }
  LOCKSTEP_KERNEL void advance(std::size_t by) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < (R + 3) / 4; ++i) fours[i] += by;
  }
};

/// The same, of a tile with fewer than R rows: those beyond repeat the last one.
template <class T, std::size_t R>
struct RowsThatEnd {
  std::size_t offsets[R];
  const T* a = nullptr;

  LOCKSTEP_KERNEL void begin(const T* first) { a = first; }
  LOCKSTEP_KERNEL T get(std::size_t r) const { return a[offsets[r]]; }
  LOCKSTEP_KERNEL void advance(std::size_t by) { a += by; }
};

/// sums += the tile whose rows of A are `rows`, which begin `first_row` elements into each
/// segment's a, and whose first column is `column`. For each k the cache line at `ahead` is
/// fetched, which moves on by ahead_step.
template <class Isa, std::size_t R, std::size_t C, class T, class Rows>
LOCKSTEP_KERNEL void multiply_tile(Vector<T, Isa> (&sums)[R][C], const Segment<T>* segments,
                                   std::size_t count, Rows rows, std::size_t first_row,
                                   std::size_t column, std::size_t a_step, std::size_t b_step,
                                   const char* ahead, std::size_t ahead_step) {
  for (; count > 0; --count, ++segments) {
    rows.begin(segments->a + first_row);
    const T* b = segments->b + column;
#pragma GCC unroll 4
    for (std::size_t k = segments->count; k > 0; --k) {
      Vector<T, Isa> row_of_b[C];
#pragma GCC unroll 4
      for (std::size_t c = 0; c < C; ++c) load(row_of_b[c], b + c * lanes<T, Isa>);
#pragma GCC unroll 16
      for (std::size_t r = 0; r < R; ++r) {
        const T factor = rows.get(r);
#pragma GCC unroll 4
        for (std::size_t c = 0; c < C; ++c) accumulate(sums[r][c], row_of_b[c], factor);
      }
      rows.advance(a_step);
      b += b_step;
      __builtin_prefetch(ahead, 0, 2);  // into the second-level cache
      ahead += ahead_step;
    }
  }
}

/// Calls `f.template operator()<Tile>(first column)` for tiles that cover `columns` (a multiple of
/// 16 elements).
template <class Isa, class T, class F>
LOCKSTEP_KERNEL void for_each_tile_column(std::size_t columns, const F& f) {
  constexpr std::size_t size = lanes<T, Isa>;
  std::size_t column = 0;
  if constexpr (Isa::registers == 32) {
    for (; column + 4 * size <= columns; column += 4 * size)
      f.template operator()<Tile<6, 4>>(column);
    if constexpr (size > 4)
      for (; column + 2 * size <= columns; column += 2 * size)
        f.template operator()<Tile<8, 2>>(column);
    if constexpr (size > 8)
      for (; column < columns; column += size) f.template operator()<Tile<12, 1>>(column);
  } else {
    for (; column < columns; column += 2 * size) f.template operator()<Tile<6, 2>>(column);
  }
}

}}}  // namespace lockstep::kernels

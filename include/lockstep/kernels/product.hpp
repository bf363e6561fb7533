// Matrix products: blocking around the register tile.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/product_layout.hpp"
#include "lockstep/kernels/tile.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// C = finish(onto + sum over segments of A * B), for kernels::dispatch. One function for all
/// products and convolutions, so that a program has three copies of it (for each element type) and
/// not three for each layer.
template <class T>
struct ProductBlock {
  Target<T> target;
  const Segment<T>* segments = nullptr;
  std::size_t segment_count = 0;
  Steps steps;
  Onto<T> onto;
  Finish<T> finish;
  Ahead ahead[2] = {};

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    std::size_t inner = 0;
    for (std::size_t i = 0; i < segment_count; ++i) inner += segments[i].count;
    AheadCursor cursor(ahead, inner, tiles<Isa>());
    const bool may_pack = inner <= inner_block && segment_count <= packed_segments;
    for_each_tile_column<Isa, T>(
        padded_columns(target.columns),
        [this, &cursor, may_pack]<class ThisTile>(std::size_t column) LOCKSTEP_KERNEL_LAMBDA {
          this->template column_of_tiles<Isa, ThisTile>(column, cursor, may_pack);
        });
  }

 private:
  /// Deals out what lies ahead to the tiles of this block, so much of it for each k that it lasts
  /// until the last tile: the memory has room for few requests at a time.
  struct AheadCursor {
    Ahead parts[2];
    std::size_t inner;
    std::size_t most;             ///< bytes for each k
    std::size_t bytes_per_k = 0;  ///< of the present tile
    std::size_t done = 0;         ///< of a row

    LOCKSTEP_KERNEL AheadCursor(const Ahead (&ahead)[2], std::size_t summands, std::size_t tiles)
        : parts{ahead[0], ahead[1]}, inner(std::max<std::size_t>(summands, 1)) {
      const std::size_t bytes =
          parts[0].row_bytes * parts[0].rows + parts[1].row_bytes * parts[1].rows;
      most = std::min(bytes / (inner * std::max<std::size_t>(tiles, 1)) + 1, cache_line);
    }

    /// Where a tile's prefetches begin; null: nothing is left.
    const char* take() {
      Ahead& part = parts[parts[0].rows > 0 ? 0 : 1];
      bytes_per_k = 0;
      if (part.rows == 0) return nullptr;
      const char* const begin = part.next + done;
      bytes_per_k = std::min(most, (part.row_bytes + inner - 1) / inner);
      done += bytes_per_k * inner;
      if (done >= part.row_bytes) {
        done = 0;
        part.next += part.step;
        --part.rows;
      }
      return begin;
    }
  };

  /// About how many tiles this block has.
  template <class Isa>
  [[nodiscard]] LOCKSTEP_KERNEL std::size_t tiles() const {
    constexpr std::size_t width = (Isa::registers == 32 ? 4 : 2) * lanes<T, Isa>;
    return (target.rows + 5) / 6 * ((target.columns + width - 1) / width);
  }

  template <class Isa, class ThisTile>
  LOCKSTEP_KERNEL void column_of_tiles(std::size_t column, AheadCursor& cursor,
                                       bool may_pack) const {
    constexpr std::size_t width = ThisTile::columns * lanes<T, Isa>;
    alignas(cache_line) T rows_of_b[inner_block * width];
    Segment<T> packed[packed_segments];
    const Panels panels = steps.b;
    RowsOfB b{segments, panels.offset(column), panels.step};
    // Rows of B that lie far apart fall into few sets of the first-level cache. Where they are used
    // often enough they are copied to lie one after the other.
    if (may_pack && panels.step != width && target.rows >= 8 * ThisTile::rows) {
      const std::size_t first = b.first;
      b = {packed, 0, width};
      T* next = rows_of_b;
      for (std::size_t i = 0; i < segment_count; ++i) {
        packed[i] = {segments[i].a, next, segments[i].count};
        const T* from = segments[i].b + first;
        for (std::size_t k = segments[i].count; k > 0; --k) {
#pragma GCC unroll 4
          for (std::size_t c = 0; c < ThisTile::columns; ++c) {
            Vector<T, Isa> values;
            load(values, from + c * lanes<T, Isa>);
            __builtin_prefetch(from + 8 * panels.step + c * lanes<T, Isa>);
            store(next + c * lanes<T, Isa>, values);
          }
          from += panels.step;
          next += width;
        }
      }
    }
    column_of_tiles<Isa, ThisTile>(b, column, cursor);
  }

  /// B as the tiles of one column see it.
  struct RowsOfB {
    const Segment<T>* segments;
    std::size_t first;  ///< where the tile begins in each row
    std::size_t step;
  };
  static constexpr std::size_t packed_segments = 16;

  template <class Isa, class ThisTile>
  LOCKSTEP_KERNEL void column_of_tiles(const RowsOfB b, std::size_t column,
                                       AheadCursor& cursor) const {
    if constexpr (ThisTile::rows == 6) {
      // Most layers have an even number of units: 6 m, 6 m + 4, or 6 (m - 1) + 4 + 4 of them need
      // no row for nothing.
      const std::size_t rest = target.rows % 6;
      const std::size_t fours = rest == 0 || rest == 5         ? 0
                                : rest == 2 && target.rows > 6 ? 8
                                                               : rest;
      rows_of_tiles<Isa, 6, ThisTile::columns>(b, 0, target.rows - fours, column, cursor);
      rows_of_tiles<Isa, 4, ThisTile::columns>(b, target.rows - fours, target.rows, column, cursor);
    } else {
      rows_of_tiles<Isa, ThisTile::rows, ThisTile::columns>(b, 0, target.rows, column, cursor);
    }
  }

  template <class Isa, std::size_t R, std::size_t C>
  LOCKSTEP_KERNEL void rows_of_tiles(const RowsOfB b, std::size_t first_row, std::size_t last_row,
                                     std::size_t column, AheadCursor& cursor) const {
    using V = Vector<T, Isa>;
    constexpr std::size_t n = lanes<T, Isa>;
    // (Locals, as the compiler must take it that a store to C changes members.)
    const Target<T> c = target;
    const Onto<T> before = onto;
    const bool whole_columns = column + C * n <= c.columns;
    for (std::size_t row = first_row; row < last_row; row += R) {
      const std::size_t valid_rows = std::min(R, last_row - row);
      V sums[R][C] = {};
      if (before.bias != nullptr) {
#pragma GCC unroll 16
        for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 4
          for (std::size_t j = 0; j < C; ++j)
            sums[r][j] += before.bias[row + (r < valid_rows ? r : 0)];
      }
      const char* next = cursor.take();
      const char* const fetched = next == nullptr ? reinterpret_cast<const char*>(c.data) : next;
      const std::size_t fetch_step = cursor.bytes_per_k;
      if (valid_rows == R && steps.is_even(row, R)) [[likely]] {
        multiply_tile<Isa>(sums, b.segments, segment_count, EvenRows<T, R>{steps.a_row},
                           steps.row_of_a(row), b.first, steps.a, b.step, fetched, fetch_step);
      } else {
        RowsThatEnd<T, R> rows;
#pragma GCC unroll 16
        for (std::size_t r = 0; r < R; ++r)
          rows.offsets[r] = steps.row_of_a(row + std::min(r, valid_rows - 1)) - steps.row_of_a(row);
        multiply_tile<Isa>(sums, b.segments, segment_count, rows, steps.row_of_a(row), b.first,
                           steps.a, b.step, fetched, fetch_step);
      }
      // (Read only here: during the tile it would take a register. On 16 of them, g++ then keeps a
      // row of B in memory.)
      const T minimum = finish.masks ? Finish<T>{}.minimum : finish.minimum;
      T* to = c.data + row * c.row_step + column;
      if (whole_columns) [[likely]] {
        if (c.ahead > 0) {
#pragma GCC unroll 16
          for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 4
            for (std::size_t j = 0; j < C; ++j)
              __builtin_prefetch(to + r * c.row_step + j * n + c.ahead, 0, 2);
        }
        if (before.sums) {
#pragma GCC unroll 16
          for (std::size_t r = 0; r < R; ++r) {
            if (r >= valid_rows) break;
#pragma GCC unroll 4
            for (std::size_t j = 0; j < C; ++j) {
              V old;
              load(old, to + r * c.row_step + j * n);
              sums[r][j] += old;
            }
          }
        } else if (finish.masks) {
          const T bound = finish.minimum;
#pragma GCC unroll 16
          for (std::size_t r = 0; r < R; ++r) {
            if (r >= valid_rows) break;
#pragma GCC unroll 4
            for (std::size_t j = 0; j < C; ++j) {
              V held;
              load(held, to + r * c.row_step + j * n);
              sums[r][j] = held <= bound ? V{} : sums[r][j];
            }
          }
        }
#pragma GCC unroll 16
        for (std::size_t r = 0; r < R; ++r) {
          if (r >= valid_rows) break;
#pragma GCC unroll 4
          for (std::size_t j = 0; j < C; ++j) {
            sums[r][j] = sums[r][j] < minimum ? minimum - V{} : sums[r][j];
            store(to + r * c.row_step + j * n, sums[r][j]);
          }
        }
        continue;
      }
      alignas(Isa::vector_bytes) T values[R][C * n];
#pragma GCC unroll 16
      for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (std::size_t j = 0; j < C; ++j) store(&values[r][j * n], sums[r][j]);
      for (std::size_t r = 0; r < valid_rows; ++r)
        for (std::size_t j = 0; j < C * n && column + j < c.columns; ++j) {
          T& element = to[r * c.row_step + j];
          T value = before.sums ? values[r][j] + element : values[r][j];
          if (finish.masks && element <= finish.minimum) value = T(0);
          element = value < minimum ? minimum : value;
        }
    }
  }
};

/// With several blocks of summands, a group of rows of C stays in the second-level cache while they
/// pass by: 64 Ki elements of it, and not fewer than need be, as each group copies the rows of B
/// anew. With one block, C and A are fetched a group ahead.
[[nodiscard]] constexpr std::size_t rows_at_once(std::size_t columns, std::size_t inner) noexcept {
  return inner <= inner_block
             ? 192
             : std::clamp<std::size_t>(65536 / std::max<std::size_t>(columns, 1), 192, 512);
}

/// Rows of A at a time that are copied to panels.
inline constexpr std::size_t packed_rows = 192;

/// to = A, whose rows are one element apart and whose k's `step`, in panels of packed_panel rows,
/// for kernels::dispatch. What fills the last panel up is not written.
template <class T>
struct PackRows {
  const T* a = nullptr;
  std::size_t rows = 0;
  std::size_t count = 0;
  std::size_t step = 0;
  T* to = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    // 8 floats or 4 doubles: three or six of these are a panel's row.
    using Part = std::conditional_t<(Isa::vector_bytes > 32), Avx2, Isa>;
    using V = Vector<T, Part>;
    constexpr std::size_t n = lanes<T, Part>;
    const PackRows s = *this;
    for (std::size_t row = 0; row < s.rows; row += packed_panel) {
      const std::size_t width = std::min(packed_panel, s.rows - row);
      const T* from = s.a + row;
      T* place = s.to + row * inner_block;
      for (std::size_t k = 0; k < s.count; ++k) {
        const T* const later = from + std::min<std::size_t>(8, s.count - 1 - k) * s.step;
        if (width == packed_panel) [[likely]] {
#pragma GCC unroll 12
          for (std::size_t i = 0; i < packed_panel; i += n) {
            V values;
            load(values, from + i);
            store(place + i, values);
          }
          __builtin_prefetch(later);
          __builtin_prefetch(later + packed_panel - 1);
        } else {
          std::copy_n(from, width, place);
        }
        from += s.step;
        place += packed_panel;
      }
    }
  }
};

/// See multiply_blocks.
template <class T>
using ProductFunction = void (*)(const Target<T>&, const T* a, const T* b, std::size_t inner,
                                 const Steps&, const Onto<T>&, Finish<T>);

/// What multiply_blocks and multiply_parts call on this thread instead of what they do; null:
/// nothing. (Set by a scope: see bfloat16.hpp. So kernels need no second form for operands of
/// another precision, and a program without them has none of their code.)
template <class T>
inline constinit thread_local ProductFunction<T> product_instead = nullptr;

/// target = finish(onto + A * B), with `inner` summands. Rows of B are padded to a multiple of 16
/// elements. What follows A, B and C in memory is fetched ahead where it comes next.
template <class T>
void multiply_blocks(const Target<T>& target, const T* a, const T* b, std::size_t inner,
                     const Steps& steps, const Onto<T>& first_onto, Finish<T> finish) {
  if (const ProductFunction<T> instead = product_instead<T>; instead != nullptr)
    return instead(target, a, b, inner, steps, first_onto, finish);
  const auto ahead = [](const T* from, std::size_t count, std::size_t rows, std::size_t step) {
    const bool one_run = count == step && rows > 0;
    return Ahead{reinterpret_cast<const char*>(from), count * (one_run ? rows : 1) * sizeof(T),
                 one_run ? 1 : rows, step * sizeof(T)};
  };
  const bool one_block = inner <= inner_block;
  // A whose k's lie far apart falls into few sets of the first-level cache, and each tile takes a
  // part of each line: where enough tiles use it, it is copied.
  const bool packs = steps.a_row == 1 && steps.a > inner_block && target.columns >= 256;
  alignas(cache_line) T packed[packed_rows * inner_block];
  const std::size_t group = packs ? packed_rows : rows_at_once(target.columns, inner);
  for (std::size_t row = 0; row < target.rows; row += group) {
    Target<T> part = target;
    part.data += row * target.row_step;
    part.rows = std::min(group, target.rows - row);
    part.ahead = one_block ? group * target.row_step : 0;
    std::size_t k = 0;
    do {
      const std::size_t count = std::min(inner_block, inner - k);
      const T* block_of_a = a + row * steps.a_row + k * steps.a;
      const T* block_of_b = b + k * steps.b.step;
      Steps block_steps = steps;
      Segment<T> segment{block_of_a, block_of_b, count};
      if (packs) {
        dispatch(PackRows<T>{block_of_a, part.rows, count, steps.a, packed});
        segment.a = packed;
        block_steps.a = packed_panel;
        block_steps.a_panel = packed_panel * inner_block;
      }
      const T* const bias = first_onto.bias;
      const Onto<T> onto{k > 0 || first_onto.sums, k > 0 || bias == nullptr ? nullptr : bias + row};
      const bool last = k + count == inner;
      ProductBlock<T> block{
          part, &segment, count > 0, block_steps, onto, last ? finish : Finish<T>{}, {}};
      const std::size_t next_row = last ? row + part.rows : row;
      const std::size_t next_k = last ? 0 : k + count;
      const std::size_t next_rows =
          std::min(group, target.rows + (one_block ? target.rows_after : 0) - next_row);
      const std::size_t next_count = std::min(inner_block, inner - next_k);
      const T* const next_a = a + next_row * steps.a_row + next_k * steps.a;
      block.ahead[0] = steps.a == 1
                           ? ahead(next_a, next_count, next_rows, steps.a_row)
                           : ahead(next_a, next_rows, next_rows > 0 ? next_count : 0, steps.a);
      if (!last) {
        const T* const next_b = b + next_k * steps.b.step;
        block.ahead[1] =
            steps.b.panel == panel_columns
                ? ahead(next_b, padded_columns(target.columns), next_count, steps.b.step)
                : ahead(next_b, next_count * steps.b.step,
                        (target.columns + panel_columns - 1) / panel_columns, steps.b.panel);
      }
      dispatch(block);
      k += count;
    } while (k < inner);
  }
}

/// target = finish(bias + A * B). bias: one number for each row; null: zero.
template <class T>
void multiply(const Target<T>& target, const T* a, const T* b, std::size_t inner,
              const Steps& steps, const T* bias = nullptr, Finish<T> finish = {}) {
  multiply_blocks<T>(target, a, b, inner, steps, {false, bias}, finish);
}

/// target += bias + A * B.
template <class T>
void multiply_onto(const Target<T>& target, const T* a, const T* b, std::size_t inner,
                   const Steps& steps, const T* bias = nullptr) {
  multiply_blocks<T>(target, a, b, inner, steps, {true, bias}, {});
}

/// target = A * B, or target + A * B with `adds`. As multiply, but A, B and C may be parts of
/// larger matrices, with any steps: what follows them in memory is not fetched ahead.
template <class T>
void multiply_parts(const Target<T>& target, const T* a, const T* b, std::size_t inner,
                    const Steps& steps, bool adds = false) {
  if (const ProductFunction<T> instead = product_instead<T>; instead != nullptr)
    return instead(target, a, b, inner, steps, {.sums = adds}, {});
  std::size_t k = 0;
  do {
    const std::size_t count = std::min(inner_block, inner - k);
    const Segment<T> segment{a + k * steps.a, b + k * steps.b.step, count};
    dispatch(ProductBlock<T>{target, &segment, count > 0, steps, {.sums = adds || k > 0}, {}, {}});
    k += count;
  } while (k < inner);
}

LOCKSTEP_EXTERN(void multiply_blocks<float>(const Target<float>&, const float*, const float*,
                                            std::size_t, const Steps&, const Onto<float>&,
                                            Finish<float>));
LOCKSTEP_EXTERN_DOUBLE(void multiply_blocks<double>(const Target<double>&, const double*,
                                                    const double*, std::size_t, const Steps&,
                                                    const Onto<double>&, Finish<double>));

}}}  // namespace lockstep::kernels

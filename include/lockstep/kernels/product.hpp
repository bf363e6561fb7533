// Matrix products: blocking around the register tile.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/tile.hpp"

namespace lockstep::inline LOCKSTEP_ABI::kernels {

/// Rows of B (one register tile wide) that stay in the first-level cache while all rows of A pass by, hence the number of
/// summands that are added up in registers before they are added to C. Part of the order of summation.
inline constexpr std::size_t inner_block = 128;

/// The smallest multiple of 16 that is at least n: rows of B are padded to it.
[[nodiscard]] constexpr std::size_t padded_columns(std::size_t n) noexcept { return (n + 15) / 16 * 16; }

/// Where a product goes: `rows` x `columns` of C, whose rows are `row_step` apart.
template <class T>
struct Target {
  T* data = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t row_step = 0;
};

/// The distances, in elements, between the elements of A and the rows of B. They are the same for all segments of a product.
struct Steps {
  std::size_t a_row = 0;
  std::size_t a = 0;
  std::size_t b = 0;
};

/// What is there before a block of summands is added.
template <class T>
struct Onto {
  bool sums = false;        ///< the sums of earlier blocks, in C; else:
  const T* bias = nullptr;  ///< one number for each row; null: zero
};

/// What is done to the sum of all blocks: no element below `minimum` (0 is ReLU; NaN stays NaN).
template <class T>
struct Finish {
  T minimum = -std::numeric_limits<T>::infinity();
};

/// C = finish(onto + sum over segments of A * B), for kernels::dispatch. One function for all products and convolutions, so that
/// a program has three copies of it (for each element type) and not three for each layer.
template <class T>
struct ProductBlock {
  Target<T> target;
  const Segment<T>* segments = nullptr;
  std::size_t segment_count = 0;
  Steps steps;
  Onto<T> onto;
  Finish<T> finish;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    for_each_tile_column<Isa, T>(padded_columns(target.columns),
                                 [this]<class ThisTile>(std::size_t column)
                                     LOCKSTEP_KERNEL_LAMBDA { this->template column_of_tiles<Isa, ThisTile>(column); });
  }

 private:
  template <class Isa, class ThisTile>
  LOCKSTEP_KERNEL void column_of_tiles(std::size_t column) const {
    constexpr std::size_t R = ThisTile::rows;
    constexpr std::size_t C = ThisTile::columns;
    constexpr std::size_t width = C * lanes<T, Isa>;
    for (std::size_t row = 0; row < target.rows; row += R) {
      const std::size_t valid_rows = std::min(R, target.rows - row);
      std::size_t rows[R];  // rows beyond the last one repeat it, and are not stored
#pragma GCC unroll 16
      for (std::size_t r = 0; r < R; ++r) rows[r] = (row + (r < valid_rows ? r : valid_rows - 1)) * steps.a_row;
      Vector<T, Isa> sums[R][C];
      multiply_tile<Isa>(sums, segments, segment_count, rows, column, steps.a, steps.b);
      T* c = target.data + row * target.row_step + column;
      const T* bias = onto.bias == nullptr ? nullptr : onto.bias + row;
      if (column + width <= target.columns) [[likely]] {
#pragma GCC unroll 16
        for (std::size_t r = 0; r < R; ++r) {
          if (r >= valid_rows) break;
          add_row<Isa>(c + r * target.row_step, sums[r], bias == nullptr ? T(0) : bias[r]);
        }
        continue;
      }
      alignas(Isa::vector_bytes) T values[R][width];
#pragma GCC unroll 16
      for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (std::size_t j = 0; j < C; ++j) store(&values[r][j * lanes<T, Isa>], sums[r][j]);
      for (std::size_t r = 0; r < valid_rows; ++r)
        for (std::size_t j = 0; j < width && column + j < target.columns; ++j) {
          T* element = c + r * target.row_step + j;
          const T value = values[r][j] + (onto.sums ? *element : bias == nullptr ? T(0) : bias[r]);
          *element = value < finish.minimum ? finish.minimum : value;
        }
    }
  }

  template <class Isa, std::size_t C>
  LOCKSTEP_KERNEL void add_row(T* c, Vector<T, Isa> (&sums)[C], T bias) const {
#pragma GCC unroll 4
    for (std::size_t j = 0; j < C; ++j) {
      Vector<T, Isa> value;
      if (onto.sums) {
        load(value, c + j * lanes<T, Isa>);
        value += sums[j];
      } else {
        value = sums[j] + bias;
      }
      value = value < finish.minimum ? finish.minimum - Vector<T, Isa>{} : value;
      store(c + j * lanes<T, Isa>, value);
    }
  }
};

/// target = finish(bias + A * B), with `inner` summands. Rows of B are padded to a multiple of 16 elements.
template <class T>
void multiply(const Target<T>& target, const T* a, const T* b, std::size_t inner, const Steps& steps,
              const T* bias = nullptr, Finish<T> finish = {}) {
  // A group of rows of C stays in the second-level cache while all blocks of summands pass by.
  constexpr std::size_t group = 192;
  for (std::size_t row = 0; row < target.rows; row += group) {
    Target<T> part = target;
    part.data += row * target.row_step;
    part.rows = std::min(group, target.rows - row);
    std::size_t k = 0;
    do {
      const std::size_t count = std::min(inner_block, inner - k);
      const Segment<T> segment{a + row * steps.a_row + k * steps.a, b + k * steps.b, count};
      const Onto<T> onto{k > 0, bias == nullptr ? nullptr : bias + row};
      dispatch(ProductBlock<T>{part, &segment, count > 0, steps, onto, k + count == inner ? finish : Finish<T>{}});
      k += count;
    } while (k < inner);
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::kernels

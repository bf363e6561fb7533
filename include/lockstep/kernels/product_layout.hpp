// Where the matrices of a product lie, and what its sums are added to.
#pragma once

#include <cstddef>
#include <limits>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// Rows of B (one register tile wide) that stay in the first-level cache while all rows of A pass
/// by, hence the number of summands that are added up in registers before they are added to C. Part
/// of the order of summation.
inline constexpr std::size_t inner_block = 128;

/// The smallest multiple of 16 that is at least n: rows of B are padded to it.
[[nodiscard]] constexpr std::size_t padded_columns(std::size_t n) noexcept {
  return (n + 15) / 16 * 16;
}

/// Columns of B that a register tile takes at once, at most. B may consist of panels of this many
/// columns: see Panels.
inline constexpr std::size_t panel_columns = 64;

/// How B lies in memory.
struct Panels {
  std::size_t step = 0;  ///< from a row to the next one
  std::size_t panel =
      panel_columns;  ///< from the first panel_columns columns to the next; default: rows are whole

  /// Where a column begins.
  [[nodiscard]] constexpr std::size_t offset(std::size_t column) const noexcept {
    return column / panel_columns * panel + column % panel_columns;
  }
};

/// Where a product goes: `rows` x `columns` of C, whose rows are `row_step` apart.
template <class T>
struct Target {
  T* data = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t row_step = 0;
  std::size_t ahead =
      0;  ///< how far ahead of what is written memory is fetched, in elements; 0: it is not
  std::size_t rows_after =
      0;  ///< of the next product, whose rows of A follow, and are fetched ahead
};

/// Rows of A in a panel of it: tiles of six never lie in two.
inline constexpr std::size_t packed_panel = 24;

/// The distances, in elements, between the elements of A and those of B. They are the same for all
/// segments of a product.
struct Steps {
  std::size_t a_row = 0;
  std::size_t a = 0;
  Panels b;
  std::size_t a_panel = 0;  ///< from packed_panel rows of A to the next; 0: rows are a_row apart

  [[nodiscard]] constexpr std::size_t row_of_a(std::size_t row) const noexcept {
    return a_panel == 0 ? row * a_row : row / packed_panel * a_panel + row % packed_panel * a_row;
  }
  /// Whether this many rows from `row` on are a_row apart.
  [[nodiscard]] constexpr bool is_even(std::size_t row, std::size_t rows) const noexcept {
    return a_panel == 0 || row % packed_panel + rows <= packed_panel;
  }
};

/// What a block of summands is added to.
template <class T>
struct Onto {
  bool sums = false;        ///< the sums of earlier blocks, in C
  const T* bias = nullptr;  ///< one number for each row; null: none
};

/// What is done to the sum of all blocks.
template <class T>
struct Finish {
  T minimum =
      -std::numeric_limits<T>::infinity();  ///< no element below it (0 is ReLU; NaN stays NaN)
  /// Instead: where C held nothing above the minimum, 0 (the gradient of that). The sum must be of
  /// one block.
  bool masks = false;
};

}}}  // namespace lockstep::kernels

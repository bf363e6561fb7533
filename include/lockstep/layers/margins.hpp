// What ZeroPadding2D and Cropping2D share: an image and the margins around it.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Rows and columns around an image, as a template argument: `2` on all sides, `{1, 2}` above and
/// below, left and right, `{top, bottom, left, right}`.
struct Margins2D {
  std::size_t top = 0, bottom = 0, left = 0, right = 0;

  constexpr Margins2D() = default;
  template <std::integral I>
  constexpr Margins2D(I all)
      : Margins2D(static_cast<std::size_t>(all), static_cast<std::size_t>(all)) {}
  constexpr Margins2D(std::size_t rows, std::size_t columns)
      : Margins2D(rows, rows, columns, columns) {}
  constexpr Margins2D(std::size_t above, std::size_t below, std::size_t before, std::size_t after)
      : top(above), bottom(below), left(before), right(after) {}
};

namespace detail {

/// Large is an image with Margins around an image of shape Small; both have `stride` samples.
template <class Small, class Large, Margins2D Margins>
struct Framed {
  /// large = small, and 0 in the margins.
  template <class T>
  static void put(const T* small, T* large, std::size_t stride) {
    const std::size_t pixel = Small::extents[2] * stride;
    const std::size_t row = Large::extents[1] * pixel, inner_row = Small::extents[1] * pixel;
    T* to = std::fill_n(large, Margins.top * row, T(0));
    for (std::size_t r = 0; r < Small::extents[0]; ++r) {
      to = std::fill_n(to, Margins.left * pixel, T(0));
      to = std::copy_n(small + r * inner_row, inner_row, to);
      to = std::fill_n(to, Margins.right * pixel, T(0));
    }
    std::fill_n(to, Margins.bottom * row, T(0));
  }

  /// small = large without the margins.
  template <class T>
  static void take(const T* large, T* small, std::size_t stride) {
    const std::size_t pixel = Small::extents[2] * stride;
    const std::size_t row = Large::extents[1] * pixel, inner_row = Small::extents[1] * pixel;
    for (std::size_t r = 0; r < Small::extents[0]; ++r)
      std::copy_n(large + (Margins.top + r) * row + Margins.left * pixel, inner_row,
                  small + r * inner_row);
  }
};

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI

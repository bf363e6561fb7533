// Windows that slide over images: extents, padding, number of positions.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// An extent for both dimensions (`3`) or for each (`Extent2D{3, 5}`: height, width), as a template
/// argument.
struct Extent2D {
  std::size_t height = 1;
  std::size_t width = 1;

  constexpr Extent2D() = default;
  template <std::integral I>
  constexpr Extent2D(I both)
      : height(static_cast<std::size_t>(both)), width(static_cast<std::size_t>(both)) {}
  constexpr Extent2D(std::size_t h, std::size_t w) : height(h), width(w) {}

  friend constexpr bool operator==(const Extent2D&, const Extent2D&) = default;
};

/// valid: the window stays inside the image. same: there are ceil(extent / stride) positions, and
/// what lies outside the image counts as zero; half of it lies before the image, the odd one after
/// it (TensorFlow's rule). causal, for sequences alone: as same, but all of it lies before.
enum class Padding { valid, same, causal };

/// The extent of a kernel whose taps lie `dilation` apart, the gaps included.
[[nodiscard]] constexpr Extent2D dilated(Extent2D kernel, Extent2D dilation) noexcept {
  return {(kernel.height - 1) * dilation.height + 1, (kernel.width - 1) * dilation.width + 1};
}

/// Number of positions of a window along one dimension.
[[nodiscard]] constexpr std::size_t window_outputs(std::size_t extent, std::size_t window,
                                                   std::size_t stride, Padding padding) noexcept {
  return padding == Padding::valid ? (extent - window) / stride + 1
                                   : (extent + stride - 1) / stride;
}

/// How far the first window begins before the image, along one dimension.
[[nodiscard]] constexpr std::size_t window_padding(std::size_t extent, std::size_t window,
                                                   std::size_t stride, Padding padding) noexcept {
  if (padding == Padding::valid) return 0;
  if (padding == Padding::causal) return window - 1;
  const std::size_t covered =
      (window_outputs(extent, window, stride, padding) - 1) * stride + window;
  return covered > extent ? (covered - extent) / 2 : 0;
}

}  // namespace lockstep::inline LOCKSTEP_ABI

// Windows that slide over images and sequences: extents, padding, number of positions.
#pragma once

#include <concepts>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/input_checks.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

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

/// An extent for all three dimensions of a volume (`3`) or for each (`Extent3D{3, 5, 5}`: depth,
/// height, width), as a template argument.
struct Extent3D {
  std::size_t depth = 1;
  std::size_t height = 1;
  std::size_t width = 1;

  constexpr Extent3D() = default;
  template <std::integral I>
  constexpr Extent3D(I all) : Extent3D(all, all, all) {}
  template <std::integral D, std::integral H, std::integral W>
  constexpr Extent3D(D d, H h, W w)
      : depth(static_cast<std::size_t>(d)),
        height(static_cast<std::size_t>(h)),
        width(static_cast<std::size_t>(w)) {}

  /// Height and width.
  [[nodiscard]] constexpr Extent2D plane() const noexcept { return {height, width}; }
  [[nodiscard]] constexpr std::size_t size() const noexcept { return depth * height * width; }

  friend constexpr bool operator==(const Extent3D&, const Extent3D&) = default;
};

/// valid: the window stays inside the image. same: there are ceil(extent / stride) positions, and
/// what lies outside the image counts as zero; half of it lies before the image, the odd one after
/// it (TensorFlow's rule). causal, for sequences alone: as same, but all of it lies before.
enum class Padding { valid, same, causal };

/// The extent of a kernel whose taps lie `dilation` apart, the gaps included.
[[nodiscard]] constexpr Extent2D dilated(Extent2D kernel, Extent2D dilation) noexcept {
  return {(kernel.height - 1) * dilation.height + 1, (kernel.width - 1) * dilation.width + 1};
}

[[nodiscard]] constexpr Extent3D dilated(Extent3D kernel, Extent3D dilation) noexcept {
  const Extent2D plane = dilated(kernel.plane(), dilation.plane());
  return {(kernel.depth - 1) * dilation.depth + 1, plane.height, plane.width};
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

namespace detail {

/// What windows over volumes give: Shape<depth, height, width, Channels>. (Of ones where the input
/// is none that the layer takes: the message of check() says enough.)
template <class In, Extent3D Window, Extent3D Stride, Padding How, std::size_t Channels>
constexpr auto volume_of_windows() {
  if constexpr (!VolumeInput<0, In>)
    return Shape<1, 1, 1, Channels>{};
  else if constexpr (How == Padding::same ||
                     InputWithRoomFor<0, In, Shape<Window.depth, Window.height, Window.width>>)
    return Shape<window_outputs(In::extents[0], Window.depth, Stride.depth, How),
                 window_outputs(In::extents[1], Window.height, Stride.height, How),
                 window_outputs(In::extents[2], Window.width, Stride.width, How), Channels>{};
  else
    return Shape<1, 1, 1, Channels>{};
}

/// A window over `Extent` positions, whose places are `Stride` apart. (Where it does not fit, there
/// is one place: the message of check() says enough.)
template <std::size_t Extent, std::size_t Stride, Padding How>
struct SequenceWindows {
  template <class In>
  static constexpr bool fits = How != Padding::valid || positions_of<In> >= Extent;
  template <class In>
  static constexpr std::size_t outputs =
      fits<In> ? window_outputs(positions_of<In>, Extent, Stride, How) : 1;
  /// Positions before the first that the first window covers.
  template <class In>
  static constexpr std::size_t pad = window_padding(positions_of<In>, Extent, Stride, How);
};

template <std::size_t Position, class In, class Windows>
concept LongEnough = Windows::template fits<In>;

template <std::size_t Position, class In, class Windows>
consteval bool check_sequence_window() {
  static_assert(SequenceInput<Position, In>,
                "lockstep: a 1-D convolution or pooling needs a sequence of tokens, Sequence<T, "
                "features>: put ls::Embedding or ls::ToSequence before it");
  static_assert(FlatInput<Position, TokenOf<In>>,
                "lockstep: a 1-D convolution or pooling needs flat tokens, and its tokens have "
                "more dimensions");
  static_assert(LongEnough<Position, In, Windows>,
                "lockstep: the window of a 1-D convolution or pooling is longer than its input: "
                "make it smaller, or pad the input with ls::Padding::same");
  return true;
}

}  // namespace detail

}}  // namespace lockstep

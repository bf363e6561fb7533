// Extents of a convolution of images or volumes, and which taps of its kernel lie where.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// Channels and filters fall into `groups` of equal size; the filters of a group see the channels
/// of the same group. Features are ordered (plane, row, column, group, channel), weights are
/// [kernel plane][kernel row][kernel column][channel][group][filter]. An image has one plane.
struct ConvolutionSize {
  std::size_t height = 0, width = 0;  ///< input
  std::size_t channels = 0;           ///< of a group
  std::size_t out_height = 0, out_width = 0;
  std::size_t filters = 0;  ///< of a group
  std::size_t kernel_height = 0, kernel_width = 0;
  std::size_t stride_height = 1, stride_width = 1;
  std::size_t pad_top = 0, pad_left = 0;
  std::size_t batch = 0;  ///< padded, a multiple of 16
  std::size_t dilation_height = 1, dilation_width = 1;
  std::size_t groups = 1;
  std::size_t depth = 1, out_depth = 1, kernel_depth = 1, stride_depth = 1, pad_front = 0,
              dilation_depth = 1;  ///< as the heights

  [[nodiscard]] constexpr std::size_t taps() const noexcept {
    return kernel_depth * kernel_height * kernel_width;
  }
  [[nodiscard]] constexpr bool is_volume() const noexcept { return depth * kernel_depth > 1; }
  /// Rows of all planes.
  [[nodiscard]] constexpr std::size_t rows() const noexcept { return depth * height; }
  [[nodiscard]] constexpr std::size_t out_rows() const noexcept { return out_depth * out_height; }
  [[nodiscard]] constexpr std::size_t all_channels() const noexcept { return groups * channels; }
  [[nodiscard]] constexpr std::size_t all_filters() const noexcept { return groups * filters; }
  /// Elements of the weights.
  [[nodiscard]] constexpr std::size_t weights() const noexcept {
    return taps() * channels * all_filters();
  }
  /// Each channel of an image has its filters: there is no sum over channels.
  [[nodiscard]] constexpr bool is_depthwise() const noexcept {
    return channels == 1 && groups > 1 && !is_volume();
  }
};

/// A range [begin, end).
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  [[nodiscard]] constexpr std::size_t size() const noexcept { return end - begin; }
  friend constexpr bool operator==(Range, Range) = default;
};

/// Which of `kernel` taps, the first of which lies at `position - pad` and the next ones `dilation`
/// further each, lie inside [0, extent).
[[nodiscard]] constexpr Range taps_inside(std::size_t position, std::size_t pad, std::size_t kernel,
                                          std::size_t extent, std::size_t dilation = 1) noexcept {
  const std::size_t begin = position < pad ? (pad - position + dilation - 1) / dilation : 0;
  const std::size_t end = std::min(
      kernel, extent + pad > position ? (extent + pad - position + dilation - 1) / dilation : 0);
  return {std::min(begin, end), end};
}

/// The taps of a kernel, along one dimension, that connect one place of an image with places of
/// another image: an arithmetic progression.
struct TapLine {
  std::size_t count = 0;
  std::size_t tap = 0;  ///< the first one
  std::size_t tap_step = 1;
  std::size_t place = 0;          ///< in the other image, of the first one
  std::ptrdiff_t place_step = 0;  ///< from tap to tap of them

  [[nodiscard]] constexpr std::size_t tap_at(std::size_t i) const noexcept {
    return tap + i * tap_step;
  }
  [[nodiscard]] constexpr std::size_t place_at(std::size_t i) const noexcept {
    return place + i * static_cast<std::size_t>(place_step);  // (wraps where it goes down)
  }
};

/// From a place of the output to the input.
[[nodiscard]] constexpr TapLine taps_to_input(std::size_t out, std::size_t stride, std::size_t pad,
                                              std::size_t kernel, std::size_t extent,
                                              std::size_t dilation) noexcept {
  const Range taps = taps_inside(out * stride, pad, kernel, extent, dilation);
  if (taps.size() == 0) return {};
  return {taps.size(), taps.begin, 1, out * stride + taps.begin * dilation - pad,
          static_cast<std::ptrdiff_t>(dilation)};
}

/// From a place of the input to the outputs that see it.
[[nodiscard]] constexpr TapLine taps_to_output(std::size_t in, std::size_t stride, std::size_t pad,
                                               std::size_t kernel, std::size_t outputs,
                                               std::size_t dilation) noexcept {
  TapLine line;
  for (std::size_t tap = 0; tap < kernel && tap * dilation <= in + pad; ++tap) {
    const std::size_t distance = in + pad - tap * dilation;
    if (distance % stride != 0 || distance / stride >= outputs) continue;
    const std::size_t out = distance / stride;
    if (line.count == 0) {
      line.tap = tap;
      line.place = out;
    } else if (line.count == 1) {
      line.tap_step = tap - line.tap;
      line.place_step = static_cast<std::ptrdiff_t>(out) - static_cast<std::ptrdiff_t>(line.place);
    }
    ++line.count;
  }
  return line;
}

}}}  // namespace lockstep::kernels

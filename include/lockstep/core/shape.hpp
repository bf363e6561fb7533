// Static shapes of one sample (the batch dimension is a run-time value and not part of a shape).
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// "(28, 28, 1)"
[[nodiscard]] inline std::string shape_text(std::span<const std::size_t> extents) {
  std::string text = "(";
  for (const std::size_t extent : extents) text += concat({text.size() > 1 ? ", " : "", extent});
  return text + ")";
}

/// The shape of one sample, e.g. Shape<28, 28, 1> (height, width, channels). Elements are ordered
/// row-major, the last extent fastest, as in Keras.
template <std::size_t... Extents>
struct Shape {
  static_assert(((Extents > 0) && ...), "lockstep: every extent of a Shape must be at least 1");
  static constexpr std::size_t rank = sizeof...(Extents);
  static constexpr std::size_t size = (std::size_t{1} * ... * Extents);  ///< number of elements
  static constexpr std::array<std::size_t, rank> extents{Extents...};

  /// "(28, 28, 1)"
  static std::string to_string() { return shape_text(extents); }
};

template <class>
inline constexpr bool is_shape = false;
template <std::size_t... Extents>
inline constexpr bool is_shape<Shape<Extents...>> = true;

template <class S>
concept StaticShape = is_shape<S>;

}  // namespace lockstep::inline LOCKSTEP_ABI

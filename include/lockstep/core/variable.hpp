// Descriptions of a layer's variables: names, shapes, initial values.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Number of inputs and outputs of one unit, as the glorot and he initialisers use them (for a
/// convolution, times the receptive field).
struct Fans {
  std::size_t in = 1;
  std::size_t out = 1;
};

/// Draws the initial value of one element. A user's own initialiser is a function of this type.
using Initializer = double (*)(RandomStream& random, Fans fans);

/// One array of a layer, in canonical layout: row-major, the last extent fastest, Keras's order of
/// dimensions (Dense: inputs x units; Conv2D: height x width x input channels x filters).
struct Variable {
  static constexpr std::size_t max_rank = 6;

  std::string_view name;  ///< Keras's name: "kernel", "bias", ...
  std::size_t rank = 0;
  std::array<std::size_t, max_rank> extents{};
  Initializer initializer = nullptr;
  Fans fans{};

  constexpr Variable() = default;
  constexpr Variable(std::string_view variable_name, std::initializer_list<std::size_t> shape, Initializer init,
                     Fans variable_fans = {})
      : name(variable_name), rank(shape.size()), initializer(init), fans(variable_fans) {
    std::size_t i = 0;
    for (const std::size_t extent : shape) extents[i++] = extent;
  }

  [[nodiscard]] constexpr std::span<const std::size_t> shape() const noexcept { return {extents.data(), rank}; }

  /// Number of elements.
  [[nodiscard]] constexpr std::size_t size() const noexcept {
    std::size_t n = 1;
    for (std::size_t i = 0; i < rank; ++i) n *= extents[i];
    return n;
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI

// Descriptions of a layer's variables: names, shapes, initial values.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/constraint.hpp"
#include "lockstep/core/initializer.hpp"
#include "lockstep/core/regularizer.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// One array of a layer, in canonical layout: row-major, the last extent fastest, Keras's order of
/// dimensions (Dense: inputs x units; Conv2D: height x width x input channels x filters).
struct Variable {
  static constexpr std::size_t max_rank = 6;

  std::string_view name;  ///< Keras's name: "kernel", "bias", ...
  std::size_t rank = 0;
  std::array<std::size_t, max_rank> extents{};
  Initializer initializer{};
  Fans fans{};
  bool is_constant =
      false;  ///< of a state variable: no step changes it, so that it is never reduced
  Regularizer regularizer{};  ///< of a trained variable
  Constraint constraint{};    ///< of a trained variable

  constexpr Variable() = default;
  constexpr Variable(std::string_view variable_name, std::initializer_list<std::size_t> shape,
                     Initializer init, Fans variable_fans = {})
      : name(variable_name), rank(shape.size()), initializer(init), fans(variable_fans) {
    std::size_t i = 0;
    for (const std::size_t extent : shape) extents[i++] = extent;
  }

  /// The same variable with what a layer's options ask for.
  [[nodiscard]] constexpr Variable with(const Regularizer& penalty,
                                        const Constraint& limits = {}) const {
    Variable variable = *this;
    variable.regularizer = penalty;
    variable.constraint = limits;
    return variable;
  }

  [[nodiscard]] constexpr std::span<const std::size_t> shape() const noexcept {
    return {extents.data(), rank};
  }

  /// Number of elements.
  [[nodiscard]] constexpr std::size_t size() const noexcept {
    std::size_t n = 1;
    for (std::size_t i = 0; i < rank; ++i) n *= extents[i];
    return n;
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI

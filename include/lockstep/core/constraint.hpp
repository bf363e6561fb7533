// Constraint: what the values of a variable are brought to after each update.
#pragma once

#include <cstddef>
#include <limits>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Values are made zero where they are negative, or scaled so that norms lie within bounds.
///
/// A norm is the root of the sum of squares over `axes` dimensions from number `axis` on: for each
/// index of the other dimensions there is one. (Keras's axis=0 is the default, its axis=[0, 1, 2],
/// for kernels of Conv2D, is .axes = 3.)
///
///   desired = rate * clip(norm, minimum, maximum) + (1 - rate) * norm
///   v *= desired / (1e-7 + norm)
struct Constraint {
  enum class Kind : unsigned char { none, non_negative, norm };

  Kind kind = Kind::none;
  double minimum = 0;
  double maximum = std::numeric_limits<double>::max();
  double rate = 1;
  std::size_t axis = 0;
  std::size_t axes = 1;

  friend constexpr bool operator==(const Constraint&, const Constraint&) = default;
};

// By Keras's names, with its defaults. For options of layers:
// `DenseOptions{.kernel_constraint = MaxNorm{3}}`.

struct NonNeg {
  constexpr operator Constraint() const { return {.kind = Constraint::Kind::non_negative}; }
};

/// Norms are at most max_value.
struct MaxNorm {
  double max_value = 2;
  std::size_t axis = 0;
  std::size_t axes = 1;
  constexpr operator Constraint() const {
    return {.kind = Constraint::Kind::norm, .maximum = max_value, .axis = axis, .axes = axes};
  }
};

/// Norms are 1.
struct UnitNorm {
  std::size_t axis = 0;
  std::size_t axes = 1;
  constexpr operator Constraint() const {
    return {.kind = Constraint::Kind::norm, .minimum = 1, .maximum = 1, .axis = axis, .axes = axes};
  }
};

/// Norms are brought between the two bounds, by a part of the way.
struct MinMaxNorm {
  double min_value = 0;
  double max_value = 1;
  double rate = 1;  ///< that part, in (0, 1]
  std::size_t axis = 0;
  std::size_t axes = 1;
  constexpr operator Constraint() const {
    return {.kind = Constraint::Kind::norm,
            .minimum = min_value,
            .maximum = max_value,
            .rate = rate,
            .axis = axis,
            .axes = axes};
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI

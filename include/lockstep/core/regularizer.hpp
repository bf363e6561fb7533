// Regularizer: a penalty on large values.
#pragma once

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// l1 * (sum of |v|) + l2 * (sum of v^2), as in Keras. That of a variable is added to the mean loss
/// of each batch, and to what evaluate reports; its gradient to the mean gradient, before clipping.
/// It counts once, however many replicas there are. Both numbers are at least 0.
struct Regularizer {
  double l1 = 0;
  double l2 = 0;

  [[nodiscard]] constexpr bool is_none() const noexcept { return l1 == 0 && l2 == 0; }
  friend constexpr bool operator==(const Regularizer&, const Regularizer&) = default;
};

// By Keras's names, with its defaults. For options of layers:
// `DenseOptions{.kernel_regularizer = L2{1e-4}}`.

struct L1 {
  double l1 = 0.01;
  constexpr operator Regularizer() const { return {.l1 = l1}; }
};

struct L2 {
  double l2 = 0.01;
  constexpr operator Regularizer() const { return {.l2 = l2}; }
};

using L1L2 = Regularizer;

}  // namespace lockstep::inline LOCKSTEP_ABI

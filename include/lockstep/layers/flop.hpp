// Flop: the work of a layer as a number.
#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Floating-point operations of matrix products for a sample (or a token, of a layer that is
/// applied token by token), a multiply-add counted as two. All other work counts as none:
/// activations, normalisation, pooling, the loss, the update. Products with the padding of an image
/// are counted, and those that attention computes again in backward are not, as is usual; those of
/// Recompute are.
struct Flop {
  std::uint64_t forward = 0;
  std::uint64_t backward = 0;          ///< the gradients of weights and of the input
  std::uint64_t backward_weights = 0;  ///< those of weights alone
  std::string_view uncounted = {};     ///< the name of a layer that does not say; empty: all do

  constexpr Flop& operator+=(const Flop& other) {
    forward += other.forward;
    backward += other.backward;
    backward_weights += other.backward_weights;
    if (uncounted.empty()) uncounted = other.uncounted;
    return *this;
  }
  friend constexpr Flop operator*(std::uint64_t times, const Flop& flop) {
    return {times * flop.forward, times * flop.backward, times * flop.backward_weights,
            flop.uncounted};
  }
  friend constexpr bool operator==(const Flop&, const Flop&) = default;
};

/// The Flop of a product with a kernel: as many operations forward as for the kernel's gradient and
/// for the input's.
[[nodiscard]] constexpr Flop product_flop(std::uint64_t multiply_adds) {
  return {2 * multiply_adds, 4 * multiply_adds, 2 * multiply_adds};
}

}}  // namespace lockstep

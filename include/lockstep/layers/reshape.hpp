// Reshape: the same numbers under another shape.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/sequence_copies.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Sees each sample as another shape of the same size, in row-major order: `Reshape<28, 28, 1>`.
/// Costs nothing; a Sequence is copied.
template <std::size_t... Extents>
struct Reshape : detail::ReshapingLayer {
  static constexpr std::string_view name = "reshape";

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(InputOfSize<Position, In, Shape<Extents...>>,
                  "lockstep: Reshape must keep the number of elements: give it extents whose "
                  "product is that of its input's");
    return true;
  }

  template <class In>
  using Output = Shape<Extents...>;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

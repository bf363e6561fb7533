// Flatten: a sample of any shape as a row of numbers.
#pragma once

#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/sequence_copies.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Sees each sample as Shape<size>, in row-major order. Costs nothing; a Sequence is copied.
struct Flatten : detail::ReshapingLayer {
  static constexpr std::string_view name = "flatten";
  template <class In>
  using Output = Shape<In::size>;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

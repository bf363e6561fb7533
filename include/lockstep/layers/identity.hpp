// Identity: y = x.
#pragma once

#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// y = x, for nothing: a branch of Parallel that hands its input on.
struct Identity {
  static constexpr std::string_view name = "identity";
  static constexpr bool aliases_input = true;
  template <class In>
  using Output = In;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

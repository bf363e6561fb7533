// What BatchNormalization and LayerNormalization share.
#pragma once

#include <array>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/initializers.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The last dimension of a Shape.
template <class In>
inline constexpr std::size_t channels = In::extents[In::rank - 1];

/// gamma and beta, or one of them, or neither.
template <class In, bool Scale, bool Center>
consteval auto scale_and_center() {
  std::array<Variable, std::size_t{Scale} + std::size_t{Center}> all{};
  if constexpr (Scale) all[0] = Variable{"gamma", {channels<In>}, ones};
  if constexpr (Center) all[Scale ? 1 : 0] = Variable{"beta", {channels<In>}, zeros};
  return all;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

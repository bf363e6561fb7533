// What BatchNormalization and LayerNormalization share.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The last dimension of a Shape.
template <class In>
inline constexpr std::size_t channels = In::extents[In::rank - 1];

/// A value for each channel.
template <class In>
consteval Variable channel_variable(std::string_view name, Initializer initializer) {
  return {name, {channels<In>}, initializer, Fans{channels<In>, channels<In>}};
}

/// gamma and beta, or one of them, or neither, as the options of a normalisation layer say.
template <class In, auto Options>
consteval auto scale_and_center() {
  std::array<Variable, std::size_t{Options.scale} + std::size_t{Options.center}> all{};
  if constexpr (Options.scale) all[0] = channel_variable<In>("gamma", Options.gamma_initializer);
  if constexpr (Options.center) all[Options.scale ? 1 : 0] = channel_variable<In>("beta", Options.beta_initializer);
  return all;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

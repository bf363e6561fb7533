// The dynamic loss scale of MixedFloat16.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// How the loss scale of MixedFloat16 changes, as Keras's LossScaleOptimizer does it.
/// Use: `LossScaleOptions{.initial_scale = 1024}`. Keras:
/// `LossScaleOptimizer(initial_scale=, dynamic_growth_steps=)`.
struct LossScaleOptions {
  std::int64_t initial_scale = 32'768;       ///< at least 1
  std::int64_t dynamic_growth_steps = 2000;  ///< finite steps until it is doubled, at least 1
};

namespace detail {

/// The scale of the next step; the same on all ranks. A policy without one has scale 1.
struct LossScale {
  double value = 1;
  std::int64_t finite_steps = 0;  ///< since it last changed

  /// After an update, or after one that was left out since a gradient was not finite. (The limits
  /// are those of a float, so that the scale is neither 0 nor infinite where the loss is NaN.)
  void advance(const LossScaleOptions& options, bool has_overflowed) noexcept {
    const bool grows = !has_overflowed && finite_steps + 1 >= options.dynamic_growth_steps;
    finite_steps = has_overflowed || grows ? 0 : finite_steps + 1;
    if (has_overflowed) value = std::max(value / 2, 0x1p-126);
    if (grows) value = std::min(value * 2, 0x1p126);
  }
};

}  // namespace detail
}}  // namespace lockstep

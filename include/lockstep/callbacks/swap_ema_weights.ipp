#pragma once

#include "lockstep/callbacks/swap_ema_weights.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE void SwapEMAWeights::require_averages(const Training& training) {
  if (!training.has_averages())
    throw ConfigurationError(
        "SwapEMAWeights: the optimizer keeps no averages of the weights: compile with one that "
        "has .use_ema = true");
}

LOCKSTEP_INLINE void SwapEMAWeights::show(Training& training) {
  require_averages(training);
  has_swapped = !training.shows_averages();
  if (has_swapped) training.swap_averages();
}

LOCKSTEP_INLINE void SwapEMAWeights::put_back(Training& training) {
  if (has_swapped && training.shows_averages()) training.swap_averages();
  has_swapped = false;
}

}  // namespace lockstep::inline LOCKSTEP_ABI

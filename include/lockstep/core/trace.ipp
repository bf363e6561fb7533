#pragma once

#include "lockstep/core/trace.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE Trace::Trace(std::size_t layers, std::size_t max_events)
    : layers_(layers), max_events_(max_events) {
  for (auto& sums : totals_) sums.resize(layers);
  events_.reserve(max_events);
}

LOCKSTEP_INLINE void Trace::add(TracePart part, std::size_t layer, Clock::time_point begin,
                                Clock::time_point end, Clock::duration inside) noexcept {
  totals_[static_cast<std::size_t>(part)][layer] += end - begin - inside;
  if (events_.size() < max_events_)
    events_.push_back({begin, end - begin, layer, part});
  else
    ++left_out_;
}

}  // namespace lockstep::inline LOCKSTEP_ABI

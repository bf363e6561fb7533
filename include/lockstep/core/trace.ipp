#pragma once

#include <utility>

#include "lockstep/core/trace.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

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

LOCKSTEP_INLINE void TraceSpan::begin() noexcept {
  outside_ = std::exchange(trace_->inside_, {}).count();
  begin_ = Trace::Clock::now().time_since_epoch().count();
}

LOCKSTEP_INLINE void TraceSpan::end() noexcept {
  const auto end = Trace::Clock::now();
  const Trace::Clock::time_point begin{Trace::Clock::duration{begin_}};
  trace_->add(part_, layer_, begin, end, trace_->inside_);
  trace_->inside_ = Trace::Clock::duration{outside_} + (end - begin);
}

}}  // namespace lockstep
